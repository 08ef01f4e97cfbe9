// The warm pool, over real sandboxes (root or not).

#include <unistd.h>

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "common/base/unique_fd.h"
#include "common/sandbox/warm_pool.h"
#include "tests/integration/sandbox_fixture.h"

namespace pike::sandbox {
namespace {

// Programs that number themselves in their first frame, then wait for the end of the channel; one
// of them for a line on `mortal_fd` instead.
class Numbered {
 public:
  absl::StatusOr<SandboxSpec> operator()() const {
    const int number = ++*count;
    count->notify_all();
    SandboxSpec spec =
        SandboxFixture::Shell("printf '\\1\\0\\0\\0%s' $NUMBER >&3; read -r line <&$WAIT_FD");
    const bool is_mortal = number == mortal_number;
    spec.environment = {{"NUMBER", absl::StrCat(number)}, {"WAIT_FD", is_mortal ? "4" : "3"}};
    if (is_mortal)
      spec.fds = {{.host_fd = mortal_fd, .inside_fd = 4}};
    return spec;
  }

  void WaitForCount(int wanted) const {
    for (int now = *count; now < wanted; now = *count)
      count->wait(now);
  }

  std::shared_ptr<std::atomic<int>> count = std::make_shared<std::atomic<int>>(0);
  int mortal_number = 0;
  int mortal_fd = -1;
};

}  // namespace

TEST_CASE("WarmPool: hands out ready sandboxes in the order they got ready, each once") {
  SandboxFixture f;
  WarmPool pool(f.host.get(), Numbered(), {.ready_target = 2});
  for (const char* number : {"1", "2", "3", "4"}) {
    absl::StatusOr<WarmSandbox> taken = pool.Take(Soon());
    REQUIRE(taken.ok());
    CHECK(taken->hello.bytes == number);
    CHECK_FALSE(taken->sandbox->Wait(MonoNow()).has_value());
    REQUIRE(taken->channel.Send("\n", {}, Soon()).ok());
  }
}

TEST_CASE("WarmPool: one that dies while it waits is replaced") {
  SandboxFixture f;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  Numbered numbered;
  numbered.mortal_number = 2;
  numbered.mortal_fd = read_end.get();
  WarmPool pool(f.host.get(), numbered, {.ready_target = 1});
  REQUIRE(pool.Take(Soon()).ok());
  numbered.WaitForCount(2);
  REQUIRE(write(write_end.get(), "\n", 1) == 1);
  numbered.WaitForCount(3);
  absl::StatusOr<WarmSandbox> next = pool.Take(Soon());
  REQUIRE(next.ok());
  CHECK(next->hello.bytes == "3");
}

TEST_CASE("WarmPool: while it is paused it starts one only for who waits") {
  SandboxFixture f;
  const Numbered numbered;
  WarmPool pool(f.host.get(), numbered, {.ready_target = 1});
  REQUIRE(pool.Take(Soon()).ok());
  numbered.WaitForCount(2);
  pool.Pause();
  // The second was started before the pause, and gets ready.
  REQUIRE(pool.Take(Soon()).ok());
  CHECK(*numbered.count == 2);
  CHECK(pool.Take(Soon())->hello.bytes == "3");
  CHECK(*numbered.count == 3);
  pool.Resume();
  CHECK(pool.Take(Soon())->hello.bytes == "4");
}

TEST_CASE("WarmPool: with nothing kept, a sandbox is started on demand") {
  SandboxFixture f;
  const Numbered numbered;
  WarmPool pool(f.host.get(), numbered, {.ready_target = 0});
  CHECK(pool.Take(Soon())->hello.bytes == "1");
  CHECK(*numbered.count == 1);
}

TEST_CASE("WarmPool: who cannot get ready is reported with its last words, and retried") {
  SandboxFixture f;
  auto is_broken = std::make_shared<std::atomic<bool>>(true);
  const Numbered numbered;
  WarmPool pool(f.host.get(),
                [is_broken, numbered]() -> absl::StatusOr<SandboxSpec> {
                  if (*is_broken)
                    return SandboxFixture::Shell("echo no torch here >&2; exit 9");
                  return numbered();
                },
                {.ready_target = 1,
                 .back_off_min = std::chrono::milliseconds(1),
                 .give_up_after = std::chrono::milliseconds(50)});
  const absl::Status status = pool.Take(Soon()).status();
  CHECK(absl::IsUnavailable(status));
  INFO(status);
  CHECK(absl::StrContains(status.message(), "exit status 9"));
  CHECK(absl::StrContains(status.message(), "no torch here"));
  *is_broken = false;
  absl::StatusOr<WarmSandbox> taken = pool.Take(Soon());
  while (!taken.ok() && absl::IsUnavailable(taken.status()))
    taken = pool.Take(Soon());
  CHECK(taken.ok());
}

TEST_CASE("WarmPool: who waits can be told to stop") {
  SandboxFixture f;
  WarmPool pool(f.host.get(),
                [] { return absl::StatusOr<SandboxSpec>(SandboxFixture::Shell("sleep 1000")); },
                {.ready_target = 1});
  std::stop_source stop;
  std::jthread stopper([&stop] { stop.request_stop(); });
  CHECK(absl::IsCancelled(pool.Take(Soon(), stop.get_token()).status()));
}

TEST_CASE("WarmPool: who is too slow is killed and replaced, and lateness fails nobody at once") {
  SandboxFixture f;
  constexpr int kLate = 3;
  const Numbered numbered;
  WarmPool pool(f.host.get(),
                [numbered]() -> absl::StatusOr<SandboxSpec> {
                  if (*numbered.count >= kLate)
                    return numbered();
                  ++*numbered.count;
                  return SandboxFixture::Shell("sleep 1000");
                },
                {.ready_target = 1,
                 .ready_timeout = std::chrono::milliseconds(300),
                 .back_off_min = std::chrono::milliseconds(1),
                 .give_up_after = std::chrono::milliseconds(1)});
  const absl::Status early = pool.Take(MonoNow() + std::chrono::milliseconds(400)).status();
  CHECK(absl::IsDeadlineExceeded(early));
  CHECK(absl::StrContains(early.message(), "too slow"));
  absl::StatusOr<WarmSandbox> taken = pool.Take(Soon());
  REQUIRE(taken.ok());
  CHECK(taken->hello.bytes == absl::StrCat(kLate + 1));
}

}  // namespace pike::sandbox
