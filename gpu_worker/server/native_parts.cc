#include "gpu_worker/server/native_parts.h"

#include <sys/wait.h>

#include <chrono>
#include <memory>
#include <optional>

#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/sandbox/result_file.h"
#include "common/sandbox/spawner.h"

namespace pike::gpu {
namespace {

constexpr std::chrono::minutes kBuildTimeout{15};
constexpr size_t kAnswerBytesMax = 64 << 10;

}  // namespace

absl::StatusOr<std::string> BuildNativeParts(const std::string& python,
                                             const std::string& share_dir,
                                             const std::string& cache_dir,
                                             sandbox::Spawner* spawner) {
  ASSIGN_OR_RETURN(const sandbox::ResultFile answer, sandbox::ResultFile::Create());
  sandbox::ProcessSpec spec;
  spec.argv = {python, "-s", absl::StrCat(share_dir, "/inside/build_native.py"), "--cache-dir",
               cache_dir};
  spec.fds.push_back({answer.fd(), 1});
  ASSIGN_OR_RETURN(const std::shared_ptr<sandbox::Child> child, spawner->Spawn(spec));
  const std::optional<sandbox::ProcessEnd> end = child->Wait(MonoNow() + kBuildTimeout);
  if (!end) {
    child->Signal(SIGKILL);
    return absl::FailedPreconditionError("building the native parts took more than 15 minutes");
  }
  if (!WIFEXITED(end->wait_status) || WEXITSTATUS(end->wait_status) != 0)
    return absl::FailedPreconditionError(
        absl::StrCat("building the native parts failed: see above, or run `", python, " ",
                     share_dir, "/inside/build_native.py --cache-dir ", cache_dir, "`"));
  ASSIGN_OR_RETURN(const std::string text, answer.Read(kAnswerBytesMax));
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("native_dir") || !parsed["native_dir"].is_string())
    return absl::InternalError(absl::StrCat("build_native.py answered: ", text.substr(0, 200)));
  return parsed["native_dir"].get<std::string>();
}

}  // namespace pike::gpu
