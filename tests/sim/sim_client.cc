#include "tests/sim/sim_client.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <absl/strings/str_cat.h>

#include "tests/sim/sim_coordinator.h"
#include "tests/sim/world.h"

namespace pike::coordinator::sim {

SimClient::SimClient(World* world, std::string name)
    : world_(*world), principal_{std::move(name)} {}

void SimClient::Start() {
  for (uint32_t number = 0; number < world_.options().evaluations_per_principal; ++number) {
    jobs_.push_back(MakeJob(number));
    world_.loop().After(world_.random().Span(0, world_.options().arrival_max.count()),
                        [this, number] { Submit(number); });
  }
}

SimClient::Job SimClient::MakeJob(uint32_t number) {
  Random& random = world_.random();
  const SimOptions& options = world_.options();
  Job job;
  job.payload = absl::StrCat(principal_.value, "/", number);
  if (random.Chance(options.keyed))
    job.client_key = absl::StrCat("key-", number);
  if (!job.client_key.empty() && number > 0 && random.Chance(options.key_reused)) {
    Job& other = jobs_[static_cast<size_t>(random.Between(0, number - 1))];
    if (!other.client_key.empty()) {
      job.client_key = other.client_key;
      job.shares_key = other.shares_key = true;
    }
  }
  if (random.Chance(500))
    job.demand.gpu_class = absl::StrCat("class-", random.Between(0, options.gpu_classes - 1));
  job.times.queue_timeout = random.Span(500, 60'000);
  job.times.compile_timeout = random.Span(500, 3'000);
  job.times.build_timeout = random.Span(100, 500);
  job.times.load_timeout = random.Span(100, 500);
  job.times.first_call_timeout = random.Span(100, 1'000);
  job.times.call_timeout = random.Span(10, 50);
  job.wants_cancel = random.Chance(options.cancelled);
  return job;
}

void SimClient::Submit(size_t index) {
  Job& job = jobs_[index];
  if (job.is_settled)
    return;
  ++job.attempts;
  EvaluationSubmitted event;
  event.request = world_.NewRequest();
  event.principal = principal_;
  event.client_key = job.client_key;
  event.request_digest = "digest of " + job.payload;
  event.demand = job.demand;
  event.times = job.times;
  event.payload = job.payload;
  requests_[event.request] = index;
  if (!world_.random().Chance(world_.faults().request_lost)) {
    world_.loop().After(world_.Latency(), [this, event] { world_.coordinator().Post(event); });
  }
  world_.loop().After(Milliseconds(2'000), [this, index, request = event.request] {
    if (requests_.erase(request) == 0)
      return;  // answered
    // Without a key nobody knows whether it was accepted: asking again could do the work twice.
    if (jobs_[index].client_key.empty())
      jobs_[index].is_settled = true;
    Submit(index);
  });
}

void SimClient::Cancel(size_t index) {
  if (!jobs_[index].wants_cancel)
    return;
  const RequestId request = world_.NewRequest();
  requests_[request] = index;
  const CancelRequested event{request, *jobs_[index].evaluation_id};
  if (!world_.random().Chance(world_.faults().request_lost)) {
    world_.loop().After(world_.Latency(), [this, event] { world_.coordinator().Post(event); });
  }
  world_.loop().After(Milliseconds(2'000), [this, index, request] {
    if (requests_.erase(request) > 0)
      Cancel(index);
  });
}

void SimClient::Receive(const AnswerSubmit& answer) {
  if (!world_.random().Chance(world_.faults().request_lost))
    world_.loop().After(world_.Latency(), [this, answer] { Take(answer); });
}

void SimClient::Receive(const AnswerCancel& answer) {
  if (!world_.random().Chance(world_.faults().request_lost))
    world_.loop().After(world_.Latency(), [this, answer] { Take(answer); });
}

void SimClient::Take(const AnswerSubmit& answer) {
  const auto request = requests_.find(answer.request);
  if (request == requests_.end())
    return;
  const size_t index = request->second;
  requests_.erase(request);
  Job& job = jobs_[index];
  if (answer.outcome == SubmitOutcome::kRefused)
    return TakeRefusal(index, answer);
  world_.Tell([&](Checker& checker) {
    checker.OnAcknowledged(answer.evaluation_id, {job.payload, principal_, job.client_key});
  });
  job.is_settled = true;
  job.evaluation_id = answer.evaluation_id;
  if (job.wants_cancel)
    world_.loop().After(world_.random().Span(0, 3'000), [this, index] { Cancel(index); });
}

void SimClient::TakeRefusal(size_t index, const AnswerSubmit& answer) {
  Job& job = jobs_[index];
  if (answer.refusal == Refusal::kAlreadyExists) {
    if (!job.shares_key)
      throw SafetyViolation("idempotency: " + job.payload +
                            " has a key of its own: " + answer.message);
    job.is_settled = true;
    return;
  }
  // Nobody can do it: perhaps a worker comes back. A full queue empties for certain.
  if (answer.refusal == Refusal::kFailedPrecondition && job.attempts >= 10) {
    job.is_settled = true;
    return;
  }
  world_.loop().After(world_.random().Span(100, 2'000), [this, index] { Submit(index); });
}

void SimClient::Take(const AnswerCancel& answer) {
  const auto request = requests_.find(answer.request);
  if (request == requests_.end())
    return;
  jobs_[request->second].wants_cancel = false;
  requests_.erase(request);
  if (answer.was_active)
    world_.Tell([&](Checker& checker) { checker.OnCancelAcknowledged(answer.evaluation_id); });
}

bool SimClient::is_done() const {
  return WhatIsLeft().empty();
}

std::string SimClient::WhatIsLeft() const {
  for (const Job& job : jobs_) {
    if (!job.is_settled)
      return absl::StrCat(job.payload, " has no answer; ");
    if (job.wants_cancel && job.evaluation_id.has_value())
      return absl::StrCat(job.payload, " is not cancelled; ");
  }
  return "";
}

}  // namespace pike::coordinator::sim
