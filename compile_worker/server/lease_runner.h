#pragma once

#include <functional>
#include <stop_token>

#include "common/build/broker.h"
#include "common/sandbox/warm_pool.h"
#include "common/service/blob_client.h"
#include "compile_worker/server/lease_result.h"
#include "compile_worker/server/source_check.h"
#include "pike/v1/worker.pb.h"

namespace pike::compile_worker {

// Does one lease. Ownership: what it points to must outlive it. Thread-safe: one call per slot.
class LeaseRunner {
 public:
  struct Parts {
    service::BlobClient* blobs = nullptr;
    build::Broker* broker = nullptr;
    sandbox::WarmPool* pool = nullptr;
    const SourceCheck* source_check = nullptr;
    WorkerIdentity identity;
    // Called with the seconds of each finished compile stage.
    std::function<void(double)> on_compile_stage;
  };

  explicit LeaseRunner(Parts parts);

  // Blocking; returns soon after `stop` is requested (the result is then of no use).
  v1::LeaseResult Run(const v1::Lease& lease, const std::stop_token& stop);

 private:
  v1::LeaseResult RunCompile(const v1::Lease& lease, const std::stop_token& stop);
  absl::StatusOr<ImportObservation> Observe(const ImportJob& job);
  v1::LeaseResult RunBuild(const v1::Lease& lease, const std::stop_token& stop);

  const Parts parts_;
};

}  // namespace pike::compile_worker
