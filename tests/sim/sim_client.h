#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/core/command.h"
#include "coordinator/core/event.h"
#include "coordinator/core/types.h"

namespace pike::coordinator::sim {

class World;

// One principal: submits evaluations, repeats keyed requests until they are answered, comes back
// when a queue was full, and cancels some.
class SimClient {
 public:
  SimClient(World* world, std::string name);

  void Start();
  bool Owns(RequestId request) const { return requests_.count(request) > 0; }
  // An answer leaves the coordinator; it may be lost.
  void Receive(const AnswerSubmit& answer);
  void Receive(const AnswerCancel& answer);
  bool is_done() const;
  std::string WhatIsLeft() const;

 private:
  struct Job {
    std::string payload;
    std::string client_key;
    bool shares_key = false;
    Demand demand;
    PolicyTimes times;
    int attempts = 0;
    bool is_settled = false;  // accepted, refused for good, or given up
    bool wants_cancel = false;
    std::optional<EvaluationId> evaluation_id;
  };

  Job MakeJob(uint32_t number);
  void Submit(size_t index);
  void Cancel(size_t index);
  void Take(const AnswerSubmit& answer);
  void Take(const AnswerCancel& answer);
  void TakeRefusal(size_t index, const AnswerSubmit& answer);

  World& world_;
  const Principal principal_;
  std::vector<Job> jobs_;
  std::map<RequestId, size_t> requests_;
};

}  // namespace pike::coordinator::sim
