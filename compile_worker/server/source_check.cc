#include "compile_worker/server/source_check.h"

#include <chrono>
#include <memory>

#include <absl/strings/str_cat.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/run_on_stop.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"
#include "common/build/local_builder.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/sandbox_host.h"

namespace pike::compile_worker {
namespace {

// Exit statuses of static_check.py.
constexpr int kNotPython = 3;
constexpr int kNoEntry = 4;
constexpr char kScriptPath[] = "/pike/inside/static_check.py";
constexpr char kSourcePath[] = "/tmp/candidate.py";
constexpr std::chrono::seconds kTimeMax{60};  // 1 MiB takes a second; this is for a busy machine
constexpr int64_t kMemoryBytesMax = int64_t{2} << 30;

ImportFacts Unparsable(ImportReport report, std::string error_type, std::string error_text) {
  ImportFacts facts;
  facts.report = report;
  facts.error_type = std::move(error_type);
  facts.error_text = std::move(error_text);
  return facts;
}

}  // namespace

SourceCheck::SourceCheck(sandbox::SandboxHost* host, const build::ToolchainPaths& paths,
                         const std::string& share_dir)
    : host_(host) {
  spec_.name = "source-check";
  spec_.argv = {paths.python, "-I", "-S", kScriptPath, kSourcePath};
  spec_.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}};
  spec_.read_only_binds.push_back({absl::StrCat(share_dir, "/inside"), "/pike/inside"});
  for (const std::string& folder : build::ToolchainFolders(paths, /*with_cuda=*/false))
    spec_.read_only_binds.push_back({folder, folder});
  spec_.limits.memory_bytes_max = kMemoryBytesMax;
}

absl::StatusOr<std::optional<ImportFacts>> SourceCheck::Check(const std::string& source,
                                                              const std::stop_token& stop) const {
  sandbox::SandboxSpec spec = spec_;
  spec.files.push_back({kSourcePath, source});
  ASSIGN_OR_RETURN(const std::unique_ptr<sandbox::Sandbox> sandbox, host_->Start(spec));
  sandbox::Exit exit;
  {
    const RunOnStop kill(stop, [&sandbox] { sandbox->Kill(); });
    exit = sandbox->WaitOrKill(MonoNow() + kTimeMax);
  }
  if (stop.stop_requested())
    return absl::CancelledError("the lease was cancelled");
  if (exit.is_timed_out)
    return std::optional<ImportFacts>();  // no opinion: the import decides
  const std::string reason = sandbox->Stdout().Text();
  if (exit.memory_limit_hit || exit.signal != 0)
    return Unparsable(ImportReport::kNotPython, "ParserDied", exit.Text());
  if (exit.status == kNotPython)
    return Unparsable(ImportReport::kNotPython, "", reason);
  if (exit.status == kNoEntry)
    return Unparsable(ImportReport::kNoEntry, "", reason);
  if (exit.status != 0)
    LogWarning(absl::StrCat("source check: ", exit.Text(), ": ",
                            EscapeLine(sandbox->Stderr().Text().substr(0, 500))));
  return std::optional<ImportFacts>();
}

}  // namespace pike::compile_worker
