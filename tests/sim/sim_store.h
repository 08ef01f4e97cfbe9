#pragma once

#include <map>
#include <utility>
#include <vector>

#include "coordinator/core/command.h"
#include "coordinator/core/record.h"
#include "tests/sim/checker.h"

namespace pike::coordinator::sim {

// What survives a crash: the log, or the snapshot that replaced its beginning, and the rows of
// ended evaluations. A batch is written whole or not at all.
class SimStore {
 public:
  void Commit(const std::vector<Command>& batch) {
    for (const Command& command : batch) {
      if (const auto* append = std::get_if<AppendRecord>(&command))
        log_.push_back(append->record);
      if (const auto* end = std::get_if<EndEvaluation>(&command))
        rows_[end->evaluation_id] = std::visit([](const auto& v) { return v.kind; }, end->verdict);
    }
  }
  void ReplaceLog(std::vector<Record> snapshot) { log_ = std::move(snapshot); }

  const std::vector<Record>& log() const { return log_; }
  const Checker::Rows& rows() const { return rows_; }

 private:
  std::vector<Record> log_;
  Checker::Rows rows_;
};

}  // namespace pike::coordinator::sim
