#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "pike/v1/evaluation.pb.h"

namespace pike::cli {

// Time left, from the pace so far. None until something ended.
std::optional<std::chrono::milliseconds> EstimateRemaining(size_t ended, size_t total,
                                                           std::chrono::milliseconds elapsed);

// "[#####.....]" with `width` columns between the brackets.
std::string ProgressBar(size_t ended, size_t total, size_t width);

// What is shown while evaluations run. Pure: told about changes, asked for text.
// Not thread-safe: owned by the shell's loop.
class Progress {
 public:
  Progress(std::vector<std::string> labels, MonoTime now);

  void OnUpdate(size_t item, const v1::EvaluationRecord& record, MonoTime now);
  void OnEnded(size_t item);
  // One line shown while the service does not answer; empty for none.
  void SetNotice(std::string notice) { notice_ = std::move(notice); }

  // The block a terminal shows: one line per running or waiting evaluation, running ones first, as
  // many as fit, then the overall line.
  std::vector<std::string> RenderBlock(MonoTime now, size_t width, size_t height) const;
  // "3/12 [##........] 2 running, 40.1 s, ETA 2 min 00 s".
  std::string OverallLine(MonoTime now) const;

 private:
  struct Item {
    bool is_ended = false;
    v1::Stage stage = v1::STAGE_UNSPECIFIED;
    uint32_t queue_position = 0;
    uint32_t attempt = 0;
    MonoTime stage_since;
  };

  std::string ItemLine(size_t item, MonoTime now) const;

  const std::vector<std::string> labels_;
  const MonoTime started_;
  std::vector<Item> items_;
  size_t ended_ = 0;
  std::string notice_;
};

}  // namespace pike::cli
