#include "coordinator/core/worker_table.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"

namespace pike::coordinator {
namespace {

// Finished leases remembered of one worker: a heartbeat that crossed with the result may name them.
constexpr size_t kFinishedMax = 512;

}  // namespace

void WorkerTable::Apply(const WorkerSeen& record) {
  workers_[record.worker.worker_id].facts = record.worker;
}

void WorkerTable::Apply(const WorkerForgotten& record) {
  const auto it = workers_.find(record.worker_id);
  PIKE_CHECK(it != workers_.end() && !it->second.is_connected());
  deadlines_.Clear(record.worker_id);
  canaries_due_.Clear(record.worker_id);
  workers_.erase(it);
}

void WorkerTable::Apply(const WorkerDrained& record) {
  WorkerEntry* worker = Find(record.worker_id);
  PIKE_CHECK(worker != nullptr);
  worker->drain_reason = record.reason;
}

void WorkerTable::Apply(const CertificateGranted& record) {
  WorkerEntry* worker = Find(record.worker_id);
  PIKE_CHECK(worker != nullptr);
  worker->certificate = record.certificate;
  worker->rounds = record.number;
  worker->certified_unix_ms = record.certified_unix_ms;
}

void WorkerTable::Apply(const CanaryFailed& record) {
  WorkerEntry* worker = Find(record.worker_id);
  PIKE_CHECK(worker != nullptr);
  worker->canary_failure = record.reason;
  if (!worker->drain_reason.has_value())
    worker->drain_reason = record.reason;
}

WorkerEntry* WorkerTable::Find(const WorkerId& id) {
  const auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

WorkerEntry* WorkerTable::FindSession(const SessionId& session) {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : Find(it->second);
}

const WorkerEntry* WorkerTable::FindSession(const SessionId& session) const {
  const auto it = sessions_.find(session);
  return it == sessions_.end() ? nullptr : &workers_.at(it->second);
}

void WorkerTable::Connect(const WorkerId& id, const SessionId& session, MonoTime now) {
  WorkerEntry* worker = Find(id);
  PIKE_CHECK(worker != nullptr && !worker->is_connected());
  worker->session = session;
  sessions_.emplace(session, id);
  Touch(worker, now);
}

void WorkerTable::Disconnect(WorkerEntry* worker, MonoTime now) {
  PIKE_CHECK(worker->is_connected());
  StopServing(worker, now);
  sessions_.erase(*worker->session);
  worker->session.reset();
  SetDeadline(*worker);
}

void WorkerTable::StopServing(WorkerEntry* worker, MonoTime now) {
  if (worker->is_taking_work())
    worker->served_until = now;
}

void WorkerTable::Touch(WorkerEntry* worker, MonoTime now) {
  worker->heard = now;
  SetDeadline(*worker);
}

void WorkerTable::StartClocks(MonoTime now) {
  for (auto& [id, worker] : workers_) {
    Touch(&worker, now);
    worker.served_until = now;
  }
}

void WorkerTable::Finish(WorkerEntry* worker, const LeaseRef& lease) {
  worker->stopping.erase(lease);
  if (std::find(worker->finished.begin(), worker->finished.end(), lease) != worker->finished.end())
    return;
  worker->finished.push_back(lease);
  if (worker->finished.size() > kFinishedMax)
    worker->finished.pop_front();
}

void WorkerTable::AppendSnapshot(std::vector<Record>* records) const {
  for (const auto& [id, worker] : workers_) {
    records->push_back(WorkerSeen{worker.facts});
    if (worker.drain_reason.has_value())
      records->push_back(WorkerDrained{id, *worker.drain_reason});
    if (!worker.certificate.empty())
      records->push_back(CertificateGranted{id, worker.certificate, worker.rounds,
                                            worker.certified_unix_ms, /*begun_unix_ms=*/0});
    if (!worker.canary_failure.empty())
      records->push_back(CanaryFailed{id, worker.canary_failure});
  }
}

void WorkerTable::SetDeadline(const WorkerEntry& worker) {
  deadlines_.Set(
      worker.facts.worker_id,
      worker.heard + (worker.is_connected() ? options_.lease_timeout : options_.worker_memory));
}

}  // namespace pike::coordinator
