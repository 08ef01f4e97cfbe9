#include "coordinator/rpc/evaluation_board.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include <absl/strings/str_cat.h>

namespace pike::coordinator {
namespace {

bool IsSameView(const v1::EvaluationRecord& a, const v1::EvaluationRecord& b) {
  // Everything else of a record that has not ended is fixed when it is accepted.
  return a.stage() == b.stage() && a.queue_position() == b.queue_position() &&
         a.attempt() == b.attempt();
}

auto AgeKey(const v1::EvaluationRecord& record) {
  return std::make_tuple(record.submitted_unix_ms(), record.evaluation_id());
}

}  // namespace

void EvaluationBoard::Show(EvaluationId id, v1::EvaluationRecord record) {
  ShownEvaluation shown;
  Watchers watchers;
  {
    MutexLock lock(&mutex_);
    Entry& entry = entries_[id];
    if (entry.shown.record != nullptr && IsSameView(*entry.shown.record, record))
      return;
    ++entry.shown.version;
    entry.shown.record = std::make_shared<const v1::EvaluationRecord>(std::move(record));
    shown = entry.shown;
    watchers = entry.watchers;
  }
  for (const auto& watcher : watchers)
    watcher->Show(shown);
}

void EvaluationBoard::End(EvaluationId id, v1::EvaluationRecord record) {
  ShownEvaluation shown;
  Watchers watchers;
  {
    MutexLock lock(&mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end())
      return;
    shown.version = it->second.shown.version + 1;
    watchers = std::move(it->second.watchers);
    watcher_count_ -= watchers.size();
    entries_.erase(it);
  }
  shown.record = std::make_shared<const v1::EvaluationRecord>(std::move(record));
  for (const auto& watcher : watchers)
    watcher->Show(shown);
}

std::vector<EvaluationId> EvaluationBoard::Watched(EvaluationId after, size_t count_max) const {
  MutexLock lock(&mutex_);
  std::vector<EvaluationId> ids;
  const auto take = [&](auto begin, auto end) {
    for (; begin != end && ids.size() < count_max; ++begin) {
      if (!begin->second.watchers.empty())
        ids.push_back(begin->first);
    }
  };
  const auto next = entries_.upper_bound(after);
  take(next, entries_.end());
  take(entries_.begin(), next);
  return ids;
}

void EvaluationBoard::Close(const absl::Status& status) {
  Watchers watchers;
  {
    MutexLock lock(&mutex_);
    closed_ = status;
    for (auto& [id, entry] : entries_) {
      std::ranges::move(entry.watchers, std::back_inserter(watchers));
      entry.watchers.clear();
    }
    watcher_count_ = 0;
  }
  for (const auto& watcher : watchers)
    watcher->Close(status);
}

std::shared_ptr<const v1::EvaluationRecord> EvaluationBoard::Find(EvaluationId id) const {
  MutexLock lock(&mutex_);
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : it->second.shown.record;
}

std::vector<std::shared_ptr<const v1::EvaluationRecord>> EvaluationBoard::List(
    const EvaluationQuery& query) const {
  std::vector<std::shared_ptr<const v1::EvaluationRecord>> records;
  {
    MutexLock lock(&mutex_);
    for (const auto& [id, entry] : entries_) {
      if (query.task_version.empty() || entry.shown.record->task_version() == query.task_version)
        records.push_back(entry.shown.record);
    }
  }
  if (query.after.has_value()) {
    const auto limit = std::make_tuple(query.after->unix_ms, query.after->id);
    std::erase_if(records, [&](const auto& record) { return !(AgeKey(*record) < limit); });
  }
  std::ranges::sort(records, std::ranges::greater(), [](const auto& r) { return AgeKey(*r); });
  if (records.size() > query.rows_max)
    records.resize(query.rows_max);
  return records;
}

size_t EvaluationBoard::size() const {
  MutexLock lock(&mutex_);
  return entries_.size();
}

absl::Status EvaluationBoard::Watch(EvaluationId id,
                                    const std::shared_ptr<EvaluationWatcher>& watcher) {
  ShownEvaluation shown;
  {
    MutexLock lock(&mutex_);
    if (!closed_.ok())
      return closed_;
    const auto it = entries_.find(id);
    if (it == entries_.end())
      return absl::NotFoundError("not live");
    if (watcher_count_ >= watchers_max_)
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", watcher_count_, " watchers already; use Get, or retry later"));
    ++watcher_count_;
    it->second.watchers.push_back(watcher);
    shown = it->second.shown;
  }
  watcher->Show(shown);
  return absl::OkStatus();
}

void EvaluationBoard::Unwatch(EvaluationId id, const EvaluationWatcher* watcher) {
  MutexLock lock(&mutex_);
  const auto it = entries_.find(id);
  if (it == entries_.end())
    return;
  Watchers& watchers = it->second.watchers;
  const auto found = std::ranges::find(watchers, watcher, &std::shared_ptr<EvaluationWatcher>::get);
  if (found == watchers.end())
    return;
  watchers.erase(found);
  --watcher_count_;
}

}  // namespace pike::coordinator
