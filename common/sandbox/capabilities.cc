#include "common/sandbox/capabilities.h"

#include <algorithm>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "common/base/status_macros.h"
#include "common/sandbox/host_check.h"
#include "common/sandbox/sandbox_host.h"

namespace pike::sandbox {

bool Capabilities::Has(const std::string& name) const {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool Capabilities::is_usable() const {
  return std::none_of(problems.begin(), problems.end(),
                      [](const Problem& problem) { return problem.is_fatal; });
}

absl::Status RequireAllLayers(const Capabilities& capabilities) {
  RETURN_IF_ERROR(FirstFatal(capabilities));
  if (capabilities.missing.empty())
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--require-sandbox: this machine lacks ", absl::StrJoin(capabilities.missing, ", "),
      " (`pike doctor` says how to get it; without the flag pike runs with less)"));
}

Capabilities DetectCapabilities(const HostOptions& options) {
  const std::vector<Problem> missing = MissingPrograms(options);
  if (!missing.empty())
    return {.problems = missing};
  const absl::StatusOr<std::unique_ptr<SandboxHost>> host = SandboxHost::Create(options);
  if (host.ok())
    return (*host)->capabilities();
  std::string text(host.status().message());
  const size_t fix = text.find("; fix: ");
  if (fix == std::string::npos)
    return {.problems = {WhyNoSandbox(host.status())}};
  return {
      .problems = {{.what = text.substr(0, fix), .fix = text.substr(fix + 7), .is_fatal = true}}};
}

}  // namespace pike::sandbox
