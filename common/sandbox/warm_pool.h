#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "common/base/clock.h"
#include "common/sandbox/frame_channel.h"
#include "common/sandbox/sandbox.h"
#include "common/sandbox/spec.h"

namespace pike::sandbox {

class SandboxHost;

struct WarmPoolOptions {
  // Sandboxes kept ready or starting. 0: nothing is kept, Take starts one.
  size_t ready_target = 1;
  // How many may be starting at once; imports are CPU-heavy.
  size_t starting_max = 1;
  // Number of the channel's descriptor inside.
  int channel_fd = 3;
  // From start to the first frame. A start that takes longer is given up, and the next one gets
  // twice the time, up to four times this: a busy machine is no failure.
  std::chrono::milliseconds ready_timeout{60000};
  // After a failed start the next is tried after `back_off_min`, doubling up to `back_off_max`.
  std::chrono::milliseconds back_off_min{100};
  std::chrono::milliseconds back_off_max{10000};
  // Those who wait are told once every start has failed for this long (late ones do not count).
  std::chrono::milliseconds give_up_after{30000};
};

// A sandbox that has sent its first frame.
struct WarmSandbox {
  FrameChannel channel;
  Frame hello;                       // the first frame; untrusted like all frames
  std::unique_ptr<Sandbox> sandbox;  // last member: killed before the channel is closed
};

// Keeps single-use sandboxes started ahead of need: program running, imports done, waiting on
// its channel. One that dies or speaks out of turn while it waits is replaced.
// Threads: any member from any thread; refilling happens on the pool's own thread.
// Destroying the pool kills those not handed out; the host must outlive it.
class WarmPool {
 public:
  // Called on the pool's thread, once per start. The pool adds the channel's descriptor.
  using SpecFactory = std::function<absl::StatusOr<SandboxSpec>()>;

  WarmPool(SandboxHost* host, SpecFactory factory, const WarmPoolOptions& options);
  ~WarmPool();
  WarmPool(const WarmPool&) = delete;
  WarmPool& operator=(const WarmPool&) = delete;

  // Hands out the one that has been ready longest, or waits for one. It is the caller's, to be used
  // once and destroyed. DeadlineExceeded at `deadline`; Cancelled once `stop` is requested;
  // Unavailable, with the reason, if none is ready and all starts of the last `give_up_after`
  // failed (the pool goes on trying, with back-off).
  absl::StatusOr<WarmSandbox> Take(MonoTime deadline, const std::stop_token& stop = {});

  // While paused one is started only if somebody waits for it (what is ready can be taken). Not
  // counted: pause once, resume once. Those already starting go on.
  void Pause();
  void Resume();

  size_t ready_count() const;
  // Those whose program has not spoken yet. Once paused it only falls.
  size_t starting_count() const;

  class Impl;

 private:
  const std::unique_ptr<Impl> impl_;
};

}  // namespace pike::sandbox
