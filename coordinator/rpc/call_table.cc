#include "coordinator/rpc/call_table.h"

#include <utility>

namespace pike::coordinator {

RequestId CallTable::Add(Done done) {
  absl::Status closed;
  RequestId request;
  {
    MutexLock lock(&mutex_);
    request.value = ++last_;
    closed = closed_;
    if (closed.ok())
      waiting_.emplace(request, std::move(done));
  }
  if (!closed.ok())
    done(closed);
  return request;
}

void CallTable::Answer(RequestId request, absl::StatusOr<Reply> reply) {
  Done done;
  {
    MutexLock lock(&mutex_);
    const auto it = waiting_.find(request);
    if (it == waiting_.end())
      return;
    done = std::move(it->second);
    waiting_.erase(it);
  }
  done(std::move(reply));
}

void CallTable::RefuseNew(const absl::Status& status) {
  MutexLock lock(&mutex_);
  closed_ = status;
}

void CallTable::Close(const absl::Status& status) {
  std::map<RequestId, Done> waiting;
  {
    MutexLock lock(&mutex_);
    closed_ = status;
    waiting.swap(waiting_);
  }
  for (auto& [request, done] : waiting)
    done(status);
}

}  // namespace pike::coordinator
