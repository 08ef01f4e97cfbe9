#include "cli/doctor/checks.h"

#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "cli/client/service_client.h"
#include "cli/python_finder.h"
#include "cli/up/child_process.h"
#include "common/base/file.h"
#include "common/base/text.h"
#include "common/build/toolchain.h"
#include "common/sandbox/capabilities.h"
#include "common/sandbox/sandbox_host.h"
#include "common/service/runtime_dir.h"

namespace pike::cli {
namespace {

using State = Finding::State;

constexpr std::chrono::seconds kConnectTimeout{2};

Finding Ok(std::string what, std::string detail) {
  return {std::move(what), State::kOk, std::move(detail), ""};
}

Finding Missing(std::string what, std::string detail, std::string fix) {
  return {std::move(what), State::kMissing, std::move(detail), std::move(fix)};
}

Finding Optional(std::string what, std::string detail, std::string fix) {
  return {std::move(what), State::kOptional, std::move(detail), std::move(fix)};
}

void CheckPrograms(std::vector<Finding>* findings) {
  for (const std::string name : {"pike-coordinator", "pike-compile-worker", "pike-gpu-worker"}) {
    const auto path = FindProgram(name);
    findings->push_back(path.ok() ? Ok(name, *path)
                                  : Missing(name, "not beside this program",
                                            "build or install all of pike into one folder"));
  }
}

void CheckSandbox(std::vector<Finding>* findings) {
  const std::vector<std::pair<std::string, std::string>> tools = {{"bwrap", "bubblewrap"},
                                                                  {"setpriv", "util-linux"}};
  for (const auto& [tool, package] : tools) {
    const std::string path = FindOnPath(tool);
    findings->push_back(
        !path.empty() ? Ok(tool, path)
                      : Missing(tool, "not in PATH", absl::StrCat("apt-get install ", package)));
  }
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

void CheckToolchain(const std::string& python_flag, std::vector<Finding>* findings) {
  const auto python = FindPython(python_flag);
  if (!python.ok()) {
    findings->push_back(Missing("python with torch", std::string(python.status().message()),
                                "deploy/quickstart makes one"));
    return;
  }
  const auto share_dir = build::FindShareDir();
  if (!share_dir.ok()) {
    findings->push_back(Missing("share folder", std::string(share_dir.status().message()),
                                "install pike again, or set PIKE_SHARE_DIR"));
    return;
  }
  const auto folder = TempFolder::Create("pike-doctor");
  if (!folder.ok()) {
    findings->push_back(Missing("temporary folder", std::string(folder.status().message()),
                                "set TMPDIR to a folder you can write to"));
    return;
  }
  const auto probed = build::ProbeToolchain({*python, *share_dir, folder->path()});
  if (!probed.ok()) {
    findings->push_back(Missing("python with torch", EscapeLine(probed.status().message()),
                                "deploy/quickstart makes one; or use --python"));
    return;
  }
  const build::Toolchain& toolchain = probed->toolchain;
  findings->push_back(Ok("python with torch", absl::StrCat(*python, ", ", toolchain.python_abi,
                                                           ", torch ", toolchain.torch_version)));
  findings->push_back(probed->can_build()
                          ? Ok("g++", toolchain.gxx_version)
                          : Missing("g++", "candidates with C++ extensions cannot be built",
                                    "apt-get install g++"));
  findings->push_back(
      probed->can_build_cuda()
          ? Ok("nvcc", absl::StrCat(toolchain.nvcc_version, " in ", probed->paths.cuda_home))
          : Optional("nvcc", "candidates with CUDA extensions cannot be built",
                     "pip install 'cuda-toolkit[nvcc,cccl,crt,nvvm]==13.0.2' into that Python, or "
                     "set CUDA_HOME"));
  CheckPackages(*python, findings);
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
  CheckToolchain(options.python, &findings);
  CheckService(options, &findings);
  return findings;
}

}  // namespace pike::cli
