#include "common/service/metrics.h"

#include <unistd.h>

#include <exception>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/service/runtime_dir.h"

namespace pike::service {
namespace {

constexpr size_t kServerThreads = 2;

}  // namespace

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {}

Metrics::~Metrics() {
  exposer_.reset();
  if (!address_file_.empty())
    ::unlink(address_file_.c_str());
}

absl::StatusOr<std::unique_ptr<Metrics>> Metrics::Start(const MetricsOptions& options) {
  std::unique_ptr<Metrics> metrics(new Metrics());
  metrics->address_ = options.address;
  if (options.address == "off")
    return metrics;
  const size_t colon = options.address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(options.address.substr(colon + 1), &port) || port < 0 || port > 65535)
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-address ", options.address, ": want host:port, or off"));
  try {
    metrics->exposer_ = std::make_unique<prometheus::Exposer>(options.address, kServerThreads);
  } catch (const std::exception& error) {  // civetweb's wrapper
    return absl::UnavailableError(
        absl::StrCat("--metrics-address ", options.address, ": ", error.what(),
                     " (is another process there? port 0 takes any free one)"));
  }
  metrics->exposer_->RegisterCollectable(metrics->registry_);
  const std::vector<int> ports = metrics->exposer_->GetListeningPorts();
  if (!ports.empty())
    port = ports.front();
  metrics->address_ = absl::StrCat(options.address.substr(0, colon), ":", port);
  LogInfo(absl::StrCat("metrics at http://", metrics->address_, "/metrics"));
  if (!options.runtime_dir.empty()) {
    const std::string folder = options.runtime_dir + "/metrics";
    RETURN_IF_ERROR(MakeFolders(folder, 0700));
    const std::string file = folder + "/" + options.process_name;
    RETURN_IF_ERROR(WriteFileAtomic(file, metrics->address_ + "\n", 0600));
    metrics->address_file_ = file;
  }
  return metrics;
}

}  // namespace pike::service
