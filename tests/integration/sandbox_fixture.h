#pragma once

#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/sandbox/sandbox_host.h"
#include "tests/testing/catch.h"

namespace pike::sandbox {

inline constexpr std::chrono::seconds kTestTimeout(60);

inline MonoTime Soon() {
  return MonoNow() + kTestTimeout;
}

// A host, and the words that tests of sandboxes are made of.
class SandboxFixture {
 public:
  explicit SandboxFixture(HostOptions options = {}) {
    absl::StatusOr<std::unique_ptr<SandboxHost>> made = SandboxHost::Create(options);
    INFO(made.status());
    REQUIRE(made.ok());
    host = *std::move(made);
  }

  static SandboxSpec Shell(std::string script) {
    return {.name = "test", .argv = {"/bin/sh", "-c", std::move(script)}};
  }
  static SandboxSpec Python(std::string script) {
    return {.name = "test", .argv = {"/usr/bin/python3", "-c", std::move(script)}};
  }

  std::unique_ptr<Sandbox> Start(const SandboxSpec& spec) {
    absl::StatusOr<std::unique_ptr<Sandbox>> started = host->Start(spec);
    INFO(started.status());
    REQUIRE(started.ok());
    return *std::move(started);
  }

  // Runs to the end: the exit, and what was printed.
  Exit Run(const SandboxSpec& spec) {
    const std::unique_ptr<Sandbox> sandbox = Start(spec);
    const Exit exit = sandbox->WaitOrKill(Soon());
    out = sandbox->Stdout().Text();
    err = sandbox->Stderr().Text();
    return exit;
  }

  static bool is_root() { return geteuid() == 0; }

  std::unique_ptr<SandboxHost> host;
  std::string out;
  std::string err;
};

}  // namespace pike::sandbox
