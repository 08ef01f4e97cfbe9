#include "cli/doctor/checks.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "cli/client/service_client.h"
#include "cli/doctor/machine.h"
#include "cli/python_finder.h"
#include "cli/up/child_process.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/build/toolchain.h"
#include "common/sandbox/capabilities.h"
#include "common/sandbox/host_check.h"
#include "common/sandbox/sandbox_host.h"
#include "common/service/runtime_dir.h"

namespace pike::cli {
namespace {

constexpr std::chrono::seconds kConnectTimeout{2};

void CheckPrograms(std::vector<Finding>* findings) {
  for (const std::string name : {"pike-coordinator", "pike-compile-worker", "pike-gpu-worker"}) {
    const auto path = FindProgram(name);
    findings->push_back(path.ok() ? Ok(name, *path)
                                  : Missing(name, "not beside this program",
                                            "build or install all of pike into one folder"));
  }
}

void CheckSandbox(std::vector<Finding>* findings) {
  const std::string bwrap = sandbox::FindBwrap("bwrap");
  if (!bwrap.empty())
    findings->push_back(Ok("bubblewrap", bwrap));
  const sandbox::Capabilities capabilities = sandbox::DetectCapabilities(sandbox::HostOptions());
  for (const sandbox::Problem& problem : capabilities.problems) {
    const auto make = problem.is_fatal ? Missing : Optional;
    findings->push_back(
        make(absl::StrCat("sandbox: ", EscapeLine(problem.what)), "", EscapeLine(problem.fix)));
  }
  if (capabilities.is_usable())
    findings->push_back(Ok("sandbox", absl::StrJoin(capabilities.names, ", ")));
}

// What candidates import beside torch.
void CheckPackages(const std::string& python, std::vector<Finding>* findings) {
  for (const std::string package : {"numpy", "einops"}) {
    const auto end = RunQuietly({python, "-s", "-c",
                                 absl::StrCat("import importlib.util, sys; sys.exit(importlib.util."
                                              "find_spec('",
                                              package, "') is None)")});
    const bool is_there = end.ok() && end->exit_status == 0 && end->signal == 0;
    findings->push_back(is_there ? Ok(package, "in that Python")
                                 : Optional(package, "candidates that import it end as load_error",
                                            absl::StrCat(python, " -m pip install ", package)));
  }
}

void ReportToolchain(const build::ProbedToolchain& probed, std::vector<Finding>* findings) {
  const build::Toolchain& toolchain = probed.toolchain;
  findings->push_back(
      Ok("python with torch", absl::StrCat(probed.paths.python, ", ", toolchain.python_abi,
                                           ", torch ", toolchain.torch_version)));
  // The judge is compiled here, so neither is optional.
  findings->push_back(probed.can_build()
                          ? Ok("g++", toolchain.gxx_version)
                          : Missing("g++", "the judge cannot be compiled", "apt-get install g++"));
  std::error_code error;
  const std::string header = probed.paths.python_include + "/Python.h";
  findings->push_back(std::filesystem::exists(header, error)
                          ? Ok("Python.h", probed.paths.python_include)
                          : Missing("Python.h", absl::StrCat("no ", header),
                                    "apt-get install python3-dev (or the headers of this Python)"));
  findings->push_back(
      probed.can_build_cuda()
          ? Ok("nvcc", absl::StrCat(toolchain.nvcc_version, " in ", probed.paths.cuda_home))
          : Optional("nvcc", "candidates with CUDA extensions cannot be built",
                     "pip install 'cuda-toolkit[nvcc,cccl,crt,nvvm]==13.0.2' into that Python, "
                     "or set CUDA_HOME"));
}

// The toolchain that workers would use; nothing, after a finding, if there is none.
std::optional<build::ProbedToolchain> FindToolchain(const std::string& python_flag,
                                                    std::vector<Finding>* findings) {
  const auto share_dir = build::FindShareDir();
  if (!share_dir.ok()) {
    findings->push_back(Missing("share folder", std::string(share_dir.status().message()),
                                "install pike again, or set PIKE_SHARE_DIR"));
    return std::nullopt;
  }
  findings->push_back(Ok("share folder", *share_dir));
  const auto folder = TempFolder::Create("pike-doctor");
  if (!folder.ok()) {
    findings->push_back(Missing("temporary folder", std::string(folder.status().message()),
                                "set TMPDIR to a folder you can write to"));
    return std::nullopt;
  }
  const auto python = FindPython(python_flag);
  if (!python.ok()) {
    findings->push_back(Missing("python with torch", std::string(python.status().message()), ""));
    return std::nullopt;
  }
  const auto probed = build::ProbeToolchain({*python, *share_dir, folder->path()});
  if (probed.ok())
    return *probed;
  findings->push_back(Missing("python with torch", EscapeLine(probed.status().message()),
                              "name a Python >= 3.11 that has PyTorch by --python"));
  return std::nullopt;
}

void CheckFolders(std::vector<Finding>* findings) {
  const auto state_dir = service::OpenStateDir("");
  if (state_dir.ok())
    CheckRoom({*state_dir}, findings);
  else
    findings->push_back(Missing("state folder", std::string(state_dir.status().message()),
                                "set XDG_DATA_HOME to a folder you can write to"));
}

void CheckService(const DoctorOptions& options, std::vector<Finding>* findings) {
  const auto runtime_dir = service::OpenRuntimeDir(options.runtime_dir);
  findings->push_back(runtime_dir.ok()
                          ? Ok("runtime folder", *runtime_dir)
                          : Missing("runtime folder", std::string(runtime_dir.status().message()),
                                    "remove it, or choose another with --runtime-dir"));
  const auto target = service::FindService(options.service, options.runtime_dir);
  if (target.ok()) {
    ServiceClient client(*target);
    if (client.WaitUntilReachable(kConnectTimeout).ok()) {
      findings->push_back(Ok("service", *target));
      return;
    }
  }
  findings->push_back(Optional("service", "not running", "start it with `pike up`"));
}

}  // namespace

std::vector<Finding> Examine(const DoctorOptions& options) {
  std::vector<Finding> findings;
  CheckPrograms(&findings);
  CheckSandbox(&findings);
  const auto probed = FindToolchain(options.python, &findings);
  if (probed) {
    ReportToolchain(*probed, &findings);
    CheckPackages(probed->paths.python, &findings);
  }
  CheckGpu(probed && probed->toolchain.torch_cuda_version.empty(), &findings);
  CheckFolders(&findings);
  CheckService(options, &findings);
  return findings;
}

}  // namespace pike::cli
