#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

namespace prometheus {
class Exposer;
class Registry;
}  // namespace prometheus

namespace pike::service {

struct MetricsOptions {
  std::string process_name;             // for example "pike-coordinator"
  std::string address = "127.0.0.1:0";  // port 0: any free port; "off": not served
  std::string runtime_dir;              // empty: the address is written nowhere
};

// A registry served as plain HTTP at /metrics until destruction. The bound address is logged and
// written to <runtime_dir>/metrics/<process_name>. Ownership: collectors registered here must
// outlive it. Thread-safe.
class Metrics {
 public:
  // InvalidArgument: malformed address. Unavailable: the address is taken.
  static absl::StatusOr<std::unique_ptr<Metrics>> Start(const MetricsOptions& options);
  ~Metrics();

  prometheus::Registry& registry() { return *registry_; }
  // "127.0.0.1:9100", or "off".
  const std::string& address() const { return address_; }

 private:
  Metrics();
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::string address_;
  std::string address_file_;
};

}  // namespace pike::service
