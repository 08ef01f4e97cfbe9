#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/core/core.h"

namespace pike::coordinator {

// The defaults, but failed attempts are repeated at once.
CoreOptions PromptOptions();

// Words for tests of the core. Keeps the log that a shell would, and checks after every event that
// the log and the snapshot both reproduce the durable state.
class CoreFixture {
 public:
  explicit CoreFixture(const CoreOptions& options = PromptOptions());

  // Hands one event to the core; `said` holds the commands until the next one.
  void Do(const Event& event);
  // Lets `span` pass; deadlines fire when they are due.
  void Pass(Milliseconds span);
  // Loses the process: a new core is made from the log.
  void Restart(Milliseconds down = Milliseconds(0));

  // Workers. Their session is the id with a count, "g1/1". They hold `held` when they connect.
  void ConnectCompile(const std::string& id, uint32_t slots = 1,
                      const std::vector<LeaseRef>& held = {});
  void ConnectGpu(const std::string& id, uint32_t slots = 1,
                  const std::vector<LeaseRef>& held = {});
  void Connect(const WorkerFacts& facts, const std::vector<LeaseRef>& held = {});
  void Disconnect(const std::string& id);
  void Beat(const std::string& id, const std::vector<LeaseRef>& held = {});
  SessionId Session(const std::string& id) const;

  // Evaluations.
  EvaluationSubmitted Request(const std::string& principal = "ann", const std::string& key = "");
  EvaluationId Submit();
  EvaluationId SubmitFor(const std::string& principal);
  void Cancel(EvaluationId id);

  // Results.
  void Finish(const std::string& worker, const LeaseRef& lease, const LeaseOutcome& outcome);
  void FinishCompile(const std::string& worker, const LeaseRef& lease);
  void FinishRun(const std::string& worker, const LeaseRef& lease,
                 VerdictKind kind = VerdictKind::kValid);
  void FailInfra(const std::string& worker, const LeaseRef& lease, bool is_retryable = true);

  // What the core said to the last event.
  template <typename T>
  std::vector<T> All() const {
    std::vector<T> found;
    for (const Command& command : said) {
      if (const T* match = std::get_if<T>(&command))
        found.push_back(*match);
    }
    return found;
  }
  // The only command of its type. REQUIRES: there is one.
  template <typename T>
  T Only() const {
    const std::vector<T> found = All<T>();
    if (found.size() != 1)
      Fail("expected one command of a type", found.size());
    return found.front();
  }
  // The lease last given for an evaluation, or for a build (no id).
  LeaseRef LeaseOf(EvaluationId id) const { return leases_given.at(id); }
  Stage StageOf(EvaluationId id) const;
  // How an evaluation ended; absent if it has not.
  std::optional<VerdictKind> EndOf(EvaluationId id) const;
  EndEvaluation FullEndOf(EvaluationId id) const;

  CoreOptions options;
  MonoTime now{std::chrono::hours(1)};
  int64_t wall_unix_ms = 1'700'000'000'000;
  std::vector<Record> log;
  std::vector<Command> said;
  std::vector<EndEvaluation> ends;
  std::map<EvaluationId, LeaseRef> leases_given;
  std::unique_ptr<Core> core;

 private:
  [[noreturn]] static void Fail(const std::string& text, size_t count);
  void Advance(Milliseconds span);
  void CheckReplay() const;

  std::map<std::string, int> connections_;
  uint64_t next_request_ = 1;
};

WorkerFacts CompileFacts(const std::string& id, uint32_t slots = 1);
WorkerFacts GpuFacts(const std::string& id, uint32_t slots = 1);

VerdictKind KindOf(const EndEvaluation& end);

}  // namespace pike::coordinator
