#pragma once

#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include "coordinator/core/types.h"
#include "pike/v1/evaluation.pb.h"
#include "pike/v1/task.pb.h"
#include "pike/v1/types.pb.h"

// The form of requests. Every error is InvalidArgument with one line that names the field and says
// what it must be. Pure.
namespace pike::coordinator {

// `field` must be a SHA-256 in lower-case hex.
absl::Status CheckDigest(absl::string_view field, absl::string_view digest);
absl::Status CheckWorkerId(absl::string_view worker_id);

// Everything about a request that needs no look-up. CheckSubmit does not look at the policy.
absl::Status CheckRegister(const v1::RegisterTaskRequest& request);
absl::Status CheckSubmit(const v1::SubmitRequest& request);

// `asked` with every zero or absent field set to the default of the policy it names. All problems
// are listed at once.
absl::StatusOr<v1::Policy> CompletePolicy(const v1::Policy& asked);

// The parts the core decides by. REQUIRES: complete.
PolicyTimes ToPolicyTimes(const v1::Policy& policy);

// The version of a task: a digest over everything that decides what its reference computes.
std::string TaskVersion(const v1::TaskRecord& task);

// A digest over everything that makes two submissions the same; names for people are left out.
std::string RequestDigest(const v1::SubmitRequest& request, const v1::Policy& policy);

// Names the evaluations that compete for the best of a task: those by one complete policy. Its
// name alone would not do, since its fields can be overridden.
std::string ContestOf(const std::string& task_version, const v1::Policy& policy);

// Newest-first page tokens. An empty token is the first page.
struct PageStart {
  int64_t unix_ms = 0;
  std::string id;
};
std::string ToPageToken(const PageStart& start);
absl::StatusOr<PageStart> ParsePageToken(const std::string& token);
// Default 100, at most 1000.
size_t PageSize(uint32_t asked);

}  // namespace pike::coordinator
