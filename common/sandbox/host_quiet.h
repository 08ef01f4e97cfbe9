#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/sandbox/sandbox_host.h"

namespace pike::sandbox {

// One process on a host makes the sandboxes of others stand still while it times: what is timed on
// cores that builds and imports use, too, would be measured with them. Processes with sandboxes
// listen on sockets in <runtime dir>/quiet; an open connection means "be still", so that nobody
// stays frozen when the process that asked dies.

// How long one who asks is obeyed at most; and what part of the time in all, so that builds end on
// a machine that always times something. Beyond it timings are as quiet as they can be.
inline constexpr std::chrono::seconds kQuietMax{10};
inline constexpr double kQuietShare = 1.0 / 3;

// Obeys for as long as it lives.
class QuietListener {
 public:
  // Listens on <runtime_dir>/quiet/<name>.sock. `host` must outlive it.
  static absl::StatusOr<std::unique_ptr<QuietListener>> Start(const std::string& runtime_dir,
                                                              const std::string& name,
                                                              SandboxHost* host);
  ~QuietListener();
  QuietListener(const QuietListener&) = delete;
  QuietListener& operator=(const QuietListener&) = delete;

 private:
  QuietListener(std::string path, UniqueFd socket, SandboxHost* host);
  void Serve();

  const std::string path_;
  const UniqueFd socket_;
  const UniqueFd stop_;  // an eventfd
  SandboxHost* const host_;
  std::thread thread_;
};

// While one lives the sandboxes of all listeners stand still.
class HostQuiet {
 public:
  // Waits for all listeners until `deadline`; those that do not answer are not waited for longer.
  HostQuiet(const std::string& runtime_dir, MonoTime deadline);
  HostQuiet(const HostQuiet&) = delete;
  HostQuiet& operator=(const HostQuiet&) = delete;

  size_t listeners() const { return connections_.size(); }
  bool are_still() const { return are_still_; }

 private:
  std::vector<UniqueFd> connections_;
  bool are_still_ = true;
};

}  // namespace pike::sandbox
