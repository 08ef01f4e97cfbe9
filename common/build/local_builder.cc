#include "common/build/local_builder.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "common/base/clock.h"
#include "common/base/digest.h"
#include "common/base/run_on_stop.h"
#include "common/base/status_macros.h"
#include "common/build/diagnostics.h"
#include "common/sandbox/result_file.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/sandbox_host.h"
#include "common/sandbox/spec.h"

namespace pike::build {
namespace {

constexpr char kWorkFolder[] = "/build";
constexpr int kResultFd = 5;
constexpr int kStartedFd = 6;
constexpr int64_t kWorkBytesMax = int64_t{2} << 30;
constexpr size_t kSignBytesMax = 16;

// Says that the tool can be run, runs it, then hands its output over by a descriptor. From then on
// the status is the tool's own, whatever it is: a flag can make g++ end with any.
constexpr char kScript[] =
    "out=$1; shift; command -v \"$1\" >/dev/null || exit 127; echo >&6; "
    "mkdir -p obj out && \"$@\" 6>&- || exit $?; exec cat \"$out\" >&5 6>&-";

bool IsInside(const std::string& path, const std::string& folder) {
  return path == folder || absl::StartsWith(path, absl::StrCat(folder, "/"));
}

CappedOutput Capped(const sandbox::CapturedOutput& output) {
  return {output.head, output.tail, static_cast<uint64_t>(output.bytes_total)};
}

std::vector<std::string> CandidateFiles(const BuildRequest& request) {
  std::vector<std::string> names;
  for (const BuildFile& file : request.sources)
    names.push_back(file.name);
  for (const BuildFile& file : request.headers)
    names.push_back(file.name);
  return names;
}

std::shared_ptr<const BuildFailure> Refusal(std::string message) {
  auto failure = std::make_shared<BuildFailure>();
  failure->kind = BuildFailureKind::kRefused;
  failure->tool = "broker";
  failure->first_error = std::move(message);
  return failure;
}

std::vector<sandbox::InsideFile> FilesOf(const BuildRequest& request) {
  std::vector<sandbox::InsideFile> files;
  for (const std::vector<BuildFile>* list : {&request.sources, &request.headers}) {
    for (const BuildFile& file : *list)
      files.push_back({absl::StrCat(kWorkFolder, "/", file.name), file.contents});
  }
  return files;
}

// Nothing if the tool succeeded.
std::shared_ptr<const BuildFailure> FailureOf(const sandbox::Exit& exit,
                                              const sandbox::Sandbox& sandbox, const BuildJob& job,
                                              const BuildStep& step) {
  if (exit.is_success())
    return nullptr;
  auto failure = std::make_shared<BuildFailure>();
  failure->tool = step.tool;
  failure->exit_status = exit.signal != 0 ? -exit.signal : exit.status;
  failure->stdout_text = Capped(sandbox.Stdout());
  failure->stderr_text = Capped(sandbox.Stderr());
  const std::vector<std::string> files = CandidateFiles(job.request);
  Diagnostic diagnostic = FindFirstError(failure->stderr_text.head, files);
  if (diagnostic.first_error.empty())  // nvcc reports on standard output
    diagnostic = FindFirstError(failure->stdout_text.head, files);
  failure->first_error = diagnostic.first_error;
  failure->file = diagnostic.file;
  failure->line = diagnostic.line;
  if (exit.is_timed_out) {
    failure->kind = BuildFailureKind::kTimeout;
    failure->first_error = absl::StrCat(step.tool, " did not end in time");
  } else if (exit.memory_limit_hit) {
    failure->kind = BuildFailureKind::kOutOfMemory;
    failure->first_error = absl::StrCat(step.tool, " needs more memory than a build may use");
  } else if (failure->first_error.empty()) {
    failure->first_error = absl::StrCat(step.tool, ": ", exit.Text());
  }
  if (failure->file.empty())
    failure->file = step.source;
  return failure;
}

}  // namespace

struct LocalBuilder::StepResult {
  std::string output;
  std::shared_ptr<const BuildFailure> failure;
};

LocalBuilder::LocalBuilder(LocalBuilderOptions options, sandbox::SandboxHost* host)
    : options_(std::move(options)), host_(host) {}

sandbox::SandboxSpec LocalBuilder::SpecOf(const BuildJob& job) const {
  sandbox::SandboxSpec spec;
  spec.name = "build";
  spec.working_folder = kWorkFolder;
  spec.tmpfs.push_back({kWorkFolder, kWorkBytesMax, 01777});
  const ToolchainPaths& paths = options_.toolchain.paths;
  spec.environment["PATH"] = "/usr/bin:/bin";
  spec.environment["LC_ALL"] = "C";
  if (job.request.with_cuda) {
    // nvcc looks for its own tools beside itself and for the host compiler in PATH.
    spec.environment["CUDA_HOME"] = paths.cuda_home;
    spec.environment["PATH"] = absl::StrCat(paths.cuda_home, "/bin:/usr/bin:/bin");
  }
  for (const std::string& folder : ToolchainFolders(paths, job.request.with_cuda))
    spec.read_only_binds.push_back({folder, folder});
  spec.limits.memory_bytes_max = options_.memory_bytes_max;
  spec.limits.file_bytes_max = static_cast<int64_t>(options_.artifact_bytes_max) * 2;
  spec.limits.processes_max = 256;
  spec.nice = options_.nice;
  spec.output_head_bytes_max = options_.output_bytes_max;
  spec.output_tail_bytes_max = options_.output_bytes_max;
  return spec;
}

absl::StatusOr<LocalBuilder::StepResult> LocalBuilder::Run(const BuildJob& job,
                                                           const BuildStep& step,
                                                           std::vector<sandbox::InsideFile> files,
                                                           const std::string& output,
                                                           const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const sandbox::ResultFile result, sandbox::ResultFile::Create());
  ASSIGN_OR_RETURN(const sandbox::ResultFile started, sandbox::ResultFile::Create());
  sandbox::SandboxSpec spec = SpecOf(job);
  spec.argv = {"/bin/sh", "-c", kScript, "sh", output};
  spec.argv.insert(spec.argv.end(), step.argv.begin(), step.argv.end());
  spec.files = std::move(files);
  spec.fds = {{result.fd(), kResultFd}, {started.fd(), kStartedFd}};

  ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Sandbox> sandbox, host_->Start(spec));
  sandbox::Exit exit;
  {
    const RunOnStop kill(stop, [&sandbox] { sandbox->Kill(); });
    exit = sandbox->WaitOrKill(job.deadline);
  }
  if (stop.stop_requested())
    return absl::CancelledError("the build is not wanted any more");
  const absl::StatusOr<std::string> sign = started.Read(kSignBytesMax);
  const bool is_started = sign.ok() ? !sign->empty() : absl::IsResourceExhausted(sign.status());
  if (!is_started && !exit.is_timed_out)
    return absl::UnavailableError(
        absl::StrCat("build sandbox: ", exit.Text(), ": ", sandbox->Stderr().Text()));
  if (exit.is_host_full && !exit.is_success())
    return absl::UnavailableError("this machine ran out of memory during a build");
  StepResult step_result;
  step_result.failure = FailureOf(exit, *sandbox, job, step);
  if (step_result.failure != nullptr)
    return step_result;
  absl::StatusOr<std::string> bytes = result.Read(options_.artifact_bytes_max);
  if (absl::IsResourceExhausted(bytes.status()))
    step_result.failure = Refusal("the build's output is larger than allowed");
  else if (!bytes.ok())
    return bytes.status();
  else
    step_result.output = *std::move(bytes);
  return step_result;
}

absl::StatusOr<BuildProduct> LocalBuilder::Build(const BuildJob& job, std::stop_token stop) {
  const ProbedToolchain& toolchain = options_.toolchain;
  if (!toolchain.can_build())
    return absl::FailedPreconditionError("this worker has no C++ compiler");
  if (job.request.with_cuda && !toolchain.can_build_cuda())
    return absl::FailedPreconditionError("this worker has no nvcc");
  const BuildPlan plan = MakeBuildPlan(job.request, toolchain.paths, job.arch);
  std::vector<sandbox::InsideFile> objects;
  size_t object_bytes = 0;
  for (const BuildStep& step : plan.steps) {
    const bool is_link = step.source.empty();
    const std::string& output = is_link ? plan.output : step.argv.back();
    // The link reads objects only, and nobody else does.
    ASSIGN_OR_RETURN(
        StepResult result,
        Run(job, step, is_link ? std::move(objects) : FilesOf(job.request), output, stop));
    if (result.failure != nullptr)
      return BuildProduct{nullptr, std::move(result.failure), false};
    if (is_link) {
      std::string sha256 = Sha256Hex(result.output);
      return BuildProduct{
          std::make_shared<const Artifact>(std::move(sha256), std::move(result.output)), nullptr,
          false};
    }
    object_bytes += result.output.size();
    if (object_bytes > options_.object_bytes_max)
      return BuildProduct{nullptr, Refusal("the build's objects are larger than allowed"), false};
    objects.push_back({absl::StrCat(kWorkFolder, "/", output), std::move(result.output)});
  }
  return absl::InternalError("a build plan without a link step");
}

std::vector<std::string> ToolchainFolders(const ToolchainPaths& paths, bool with_cuda) {
  std::vector<std::string> wanted = {paths.python_prefix, paths.python_base_prefix,
                                     paths.python_include, paths.torch_dir};
  wanted.insert(wanted.end(), paths.site_packages.begin(), paths.site_packages.end());
  if (with_cuda)
    wanted.insert(wanted.end(), paths.cuda_dirs.begin(), paths.cuda_dirs.end());
  std::sort(wanted.begin(), wanted.end());
  std::vector<std::string> folders;
  for (const std::string& path : wanted) {
    std::error_code error;
    const bool is_covered = path.empty() || IsInside(path, "/usr") ||
                            (!folders.empty() && IsInside(path, folders.back()));
    if (!is_covered && std::filesystem::is_directory(path, error))
      folders.push_back(path);
  }
  return folders;
}

}  // namespace pike::build
