#include "coordinator/rpc/session_table.h"

#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <absl/strings/escaping.h>
#include <absl/strings/string_view.h>

#include "common/base/check.h"

namespace pike::coordinator {

SessionId SessionTable::NewSessionId() {
  std::array<char, 16> bytes;
  PIKE_CHECK(::getentropy(bytes.data(), bytes.size()) == 0);
  return {absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()))};
}

bool SessionTable::Add(const SessionId& session,
                       const std::shared_ptr<WorkerConnection>& connection) {
  MutexLock lock(&mutex_);
  if (is_closed_)
    return false;
  connections_.emplace(session, connection);
  return true;
}

void SessionTable::Remove(const SessionId& session) {
  MutexLock lock(&mutex_);
  connections_.erase(session);
  open_.erase(session);
}

bool SessionTable::Deliver(LoopEvent event, const std::shared_ptr<WorkerConnection>& connection) {
  MutexLock lock(&delivery_mutex_);
  if (waiting_.empty() && mailbox_->TryPushWorker(std::move(event)))
    return true;
  // The mailbox held something just now, so the loop will come and deliver this.
  waiting_.push_back({std::move(event), connection});
  return false;
}

void SessionTable::DeliverWaiting() {
  std::vector<std::shared_ptr<WorkerConnection>> delivered;
  {
    MutexLock lock(&delivery_mutex_);
    while (!waiting_.empty() && mailbox_->TryPushWorker(std::move(waiting_.front().event))) {
      delivered.push_back(std::move(waiting_.front().connection));
      waiting_.pop_front();
    }
  }
  for (const auto& connection : delivered) {
    if (connection != nullptr)
      connection->ResumeReading();
  }
}

void SessionTable::Send(const SessionId& session, v1::CoordinatorMessage message) {
  const std::shared_ptr<WorkerConnection> connection = Find(session);
  if (connection == nullptr)
    return;
  if (message.has_welcome()) {
    MutexLock lock(&mutex_);
    if (connections_.contains(session))
      open_.insert(session);
  }
  connection->Send(std::move(message));
}

void SessionTable::Close(const SessionId& session, const absl::Status& status) {
  const std::shared_ptr<WorkerConnection> connection = Find(session);
  {
    MutexLock lock(&mutex_);
    open_.erase(session);
  }
  if (connection != nullptr)
    connection->Close(status);
}

void SessionTable::CloseAll(const absl::Status& status) {
  std::map<SessionId, std::shared_ptr<WorkerConnection>> connections;
  {
    MutexLock lock(&mutex_);
    is_closed_ = true;
    connections = connections_;
    open_.clear();
  }
  for (const auto& [session, connection] : connections)
    connection->Close(status);
}

bool SessionTable::IsOpen(const SessionId& session) const {
  MutexLock lock(&mutex_);
  return open_.contains(session);
}

std::shared_ptr<WorkerConnection> SessionTable::Find(const SessionId& session) const {
  MutexLock lock(&mutex_);
  const auto it = connections_.find(session);
  return it == connections_.end() ? nullptr : it->second;
}

}  // namespace pike::coordinator
