#include "cli/eval/progress.h"

#include <algorithm>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "cli/format.h"
#include "cli/table.h"

namespace pike::cli {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

constexpr size_t kBarWidth = 20;
constexpr size_t kLabelWidthMax = 40;

bool IsRunning(v1::Stage stage) {
  return stage == v1::STAGE_COMPILE || stage == v1::STAGE_PREPARE || stage == v1::STAGE_VERIFY ||
         stage == v1::STAGE_MEASURE;
}

}  // namespace

std::optional<milliseconds> EstimateRemaining(size_t ended, size_t total, milliseconds elapsed) {
  if (ended == 0 || ended >= total)
    return std::nullopt;
  return elapsed * static_cast<int64_t>(total - ended) / static_cast<int64_t>(ended);
}

std::string ProgressBar(size_t ended, size_t total, size_t width) {
  const size_t filled = total == 0 ? width : width * std::min(ended, total) / total;
  return absl::StrCat("[", std::string(filled, '#'), std::string(width - filled, '.'), "]");
}

Progress::Progress(std::vector<std::string> labels, MonoTime now)
    : labels_(std::move(labels)), started_(now), items_(labels_.size()) {}

void Progress::OnUpdate(size_t item, const v1::EvaluationRecord& record, MonoTime now) {
  Item& shown = items_[item];
  if (shown.stage != record.stage())
    shown.stage_since = now;
  shown.stage = record.stage();
  shown.queue_position = record.queue_position();
  shown.attempt = record.attempt();
}

void Progress::OnEnded(size_t item) {
  ended_ += items_[item].is_ended ? 0 : 1;
  items_[item].is_ended = true;
}

std::vector<std::string> Progress::RenderBlock(MonoTime now, size_t width, size_t height) const {
  std::vector<size_t> shown;
  for (size_t i = 0; i < items_.size(); i++) {
    if (!items_[i].is_ended && items_[i].stage != v1::STAGE_UNSPECIFIED)
      shown.push_back(i);
  }
  std::stable_sort(shown.begin(), shown.end(), [this](size_t a, size_t b) {
    const bool a_runs = IsRunning(items_[a].stage);
    const bool b_runs = IsRunning(items_[b].stage);
    if (a_runs != b_runs)
      return a_runs;
    return !a_runs && items_[a].queue_position < items_[b].queue_position;
  });
  const size_t fixed_lines = notice_.empty() ? 1 : 2;
  const size_t room = height > fixed_lines + 1 ? height - fixed_lines - 1 : 0;
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::min(room, shown.size()); i++)
    lines.push_back(CutToWidth(ItemLine(shown[i], now), width));
  if (!notice_.empty())
    lines.push_back(CutToWidth(notice_, width));
  lines.push_back(CutToWidth(OverallLine(now), width));
  return lines;
}

std::string Progress::OverallLine(MonoTime now) const {
  const auto elapsed = duration_cast<milliseconds>(now - started_);
  const auto running = std::count_if(items_.begin(), items_.end(), [](const Item& item) {
    return !item.is_ended && IsRunning(item.stage);
  });
  std::string line = absl::StrFormat("%d/%d %s %d running, %s", ended_, items_.size(),
                                     ProgressBar(ended_, items_.size(), kBarWidth), running,
                                     FormatDuration(elapsed));
  if (const auto remaining = EstimateRemaining(ended_, items_.size(), elapsed); remaining)
    absl::StrAppend(&line, ", ETA ", FormatDuration(*remaining));
  return line;
}

std::string Progress::ItemLine(size_t item, MonoTime now) const {
  const Item& shown = items_[item];
  std::string line = CutToWidth(labels_[item], kLabelWidthMax);
  line.append(kLabelWidthMax + 2 - DisplayWidth(line), ' ');
  absl::StrAppend(&line, StageName(shown.stage));
  if (shown.queue_position > 0)
    absl::StrAppend(&line, ", place ", shown.queue_position);
  if (shown.attempt > 1)
    absl::StrAppend(&line, ", attempt ", shown.attempt);
  absl::StrAppend(&line, ", ",
                  FormatDuration(duration_cast<milliseconds>(now - shown.stage_since)));
  return line;
}

}  // namespace pike::cli
