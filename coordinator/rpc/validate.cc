#include "coordinator/rpc/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"
#include "common/service/channel.h"
#include "coordinator/rpc/policies.h"

namespace pike::coordinator {
namespace {

constexpr size_t kNameMax = 200;
constexpr size_t kClientKeyMax = 128;
constexpr size_t kWorkerIdMax = 64;
constexpr size_t kGpuClassMax = 200;
constexpr size_t kIdentifierMax = 200;
constexpr uint32_t kPageSizeDefault = 100;
constexpr uint32_t kPageSizeMax = 1000;
// PyTorch alone takes half of it.
constexpr uint64_t kMemoryBytesMin = uint64_t{1} << 30;
constexpr uint64_t kMemoryBytesMax = uint64_t{1} << 44;

bool IsAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsMadeOf(absl::string_view text, absl::string_view punctuation) {
  return std::ranges::all_of(
      text, [&](char c) { return IsAlnum(c) || punctuation.find(c) != absl::string_view::npos; });
}

absl::Status CheckSource(absl::string_view field, absl::string_view source) {
  if (source.empty())
    return absl::InvalidArgumentError(absl::StrCat(field, " is empty; send the Python source"));
  if (source.size() > service::kSourceBytesMax)
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", source.size(),
                                                   " bytes; at most ", service::kSourceBytesMax,
                                                   " (1 MiB) are accepted"));
  return absl::OkStatus();
}

absl::Status CheckLine(absl::string_view field, absl::string_view text, size_t length_max) {
  if (text.size() > length_max)
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", text.size(), " characters; at most ", length_max));
  if (EscapeLine(text) != std::string(text))
    return absl::InvalidArgumentError(absl::StrCat(field, " holds control characters"));
  return absl::OkStatus();
}

absl::Status CheckIdentifier(absl::string_view field, absl::string_view text) {
  const bool is_digit_first = !text.empty() && text[0] >= '0' && text[0] <= '9';
  if (text.size() > kIdentifierMax || is_digit_first || !IsMadeOf(text, "_"))
    return absl::InvalidArgumentError(absl::StrCat(field, " must be a Python class name"));
  return absl::OkStatus();
}

// One integer field of a policy with its documented default and range.
struct CountField {
  const char* name;
  uint32_t (v1::Policy::*get)() const;
  void (v1::Policy::*set)(uint32_t);
  uint32_t by_default;
  uint32_t min;
  uint32_t max;
};

#define PIKE_POLICY_FIELD(field) #field, &v1::Policy::field, &v1::Policy::set_##field
constexpr std::array kCountFields = {
    CountField{PIKE_POLICY_FIELD(correctness_trials), 5, 5, 100},
    CountField{PIKE_POLICY_FIELD(warmup_calls), 3, 1, 100},
    CountField{PIKE_POLICY_FIELD(timed_calls_max), 100, 3, 10'000},
    CountField{PIKE_POLICY_FIELD(timed_ms_max), 500, 10, 60'000},
    CountField{PIKE_POLICY_FIELD(queue_timeout_ms), 600'000, 100, 86'400'000},
    CountField{PIKE_POLICY_FIELD(compile_timeout_ms), 300'000, 100, 3'600'000},
    CountField{PIKE_POLICY_FIELD(build_timeout_ms), 240'000, 100, 3'600'000},
    CountField{PIKE_POLICY_FIELD(load_timeout_ms), 120'000, 100, 3'600'000},
    CountField{PIKE_POLICY_FIELD(first_call_timeout_ms), 300'000, 100, 3'600'000},
    CountField{PIKE_POLICY_FIELD(call_timeout_ms), 60'000, 10, 3'600'000},
};
#undef PIKE_POLICY_FIELD

void CompleteCount(const CountField& field, v1::Policy* policy,
                   std::vector<std::string>* problems) {
  if ((policy->*field.get)() == 0)
    (policy->*field.set)(field.by_default);
  const uint32_t value = (policy->*field.get)();
  if (value < field.min || value > field.max)
    problems->push_back(absl::StrCat("policy.", field.name, " is ", value, "; it must be ",
                                     field.min, " to ", field.max));
}

void CheckTolerance(absl::string_view name, double value, std::vector<std::string>* problems) {
  if (!std::isfinite(value) || value < 0)
    problems->push_back(
        absl::StrCat("policy.", name, " is ", value, "; it must be a finite number of at least 0"));
}

// The element types that can cross between judge and runner.
constexpr std::array<absl::string_view, 15> kDtypes = {
    "bool",   "int8",    "int16",    "int32",   "int64",   "uint8",     "uint16",    "uint32",
    "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"};
constexpr std::array<absl::string_view, 4> kPrecisions = {"fp32", "tf32", "fp16", "bf16"};
constexpr int kTolerancesMax = 16;
constexpr double kSlackMin = 1;
constexpr double kSlackMax = 1000;

void CheckTolerances(const v1::Policy& policy, std::vector<std::string>* problems) {
  CheckTolerance("atol", policy.atol(), problems);
  CheckTolerance("rtol", policy.rtol(), problems);
  if (policy.tolerances_size() > kTolerancesMax)
    problems->push_back(absl::StrCat("policy.tolerances has ", policy.tolerances_size(),
                                     " rows; at most ", kTolerancesMax));
  std::set<std::string> seen;
  for (const v1::DtypeTolerance& row : policy.tolerances()) {
    const std::string dtype = EscapeLine(row.dtype().substr(0, kNameMax));
    if (std::ranges::find(kDtypes, row.dtype()) == kDtypes.end())
      problems->push_back(absl::StrCat("policy.tolerances names the dtype \"", dtype,
                                       "\"; there are ", absl::StrJoin(kDtypes, ", ")));
    if (!seen.insert(row.dtype()).second)
      problems->push_back(absl::StrCat("policy.tolerances names ", dtype, " twice"));
    CheckTolerance(absl::StrCat("tolerances[", dtype, "].atol"), row.atol(), problems);
    CheckTolerance(absl::StrCat("tolerances[", dtype, "].rtol"), row.rtol(), problems);
  }
}

void CheckPrecision(const v1::Policy& policy, std::vector<std::string>* problems) {
  if (!policy.precision().empty() &&
      std::ranges::find(kPrecisions, policy.precision()) == kPrecisions.end())
    problems->push_back(absl::StrCat(
        "policy.precision is \"", EscapeLine(policy.precision().substr(0, kNameMax)),
        "\"; it must be one of ", absl::StrJoin(kPrecisions, ", "), ", or empty for none"));
  const double slack = policy.precision_slack();
  if (!(slack >= kSlackMin && slack <= kSlackMax))
    problems->push_back(absl::StrCat("policy.precision_slack is ", slack, "; it must be ",
                                     kSlackMin, " to ", kSlackMax));
}

}  // namespace

absl::Status CheckDigest(absl::string_view field, absl::string_view digest) {
  if (IsSha256Hex(digest))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is malformed; it must be SHA-256 as 64 lower-case hex characters"));
}

absl::Status CheckWorkerId(absl::string_view worker_id) {
  if (worker_id.empty() || worker_id.size() > kWorkerIdMax || !IsMadeOf(worker_id, "._-"))
    return absl::InvalidArgumentError(
        absl::StrCat("worker_id must be 1 to ", kWorkerIdMax, " characters of [A-Za-z0-9._-]"));
  return absl::OkStatus();
}

absl::Status CheckRegister(const v1::RegisterTaskRequest& request) {
  if (request.name().empty() || request.name().size() > kNameMax ||
      !IsMadeOf(request.name(), "._/-"))
    return absl::InvalidArgumentError(
        absl::StrCat("name must be 1 to ", kNameMax, " characters of [A-Za-z0-9._/-]"));
  RETURN_IF_ERROR(CheckSource("source", request.source()));
  return CheckIdentifier("entry_reference", request.entry_reference());
}

absl::Status CheckSubmit(const v1::SubmitRequest& request) {
  RETURN_IF_ERROR(CheckSource("candidate_source", request.candidate_source()));
  RETURN_IF_ERROR(CheckDigest("task_version", request.task_version()));
  RETURN_IF_ERROR(CheckLine("client_key", request.client_key(), kClientKeyMax));
  RETURN_IF_ERROR(CheckLine("candidate_name", request.candidate_name(), kNameMax));
  RETURN_IF_ERROR(CheckLine("gpu_class", request.gpu_class(), kGpuClassMax));
  if (!request.toolchain_digest().empty())
    RETURN_IF_ERROR(CheckDigest("toolchain_digest", request.toolchain_digest()));
  if (request.candidate_sha256().empty())
    return absl::OkStatus();
  RETURN_IF_ERROR(CheckDigest("candidate_sha256", request.candidate_sha256()));
  if (request.candidate_sha256() != Sha256Hex(request.candidate_source()))
    return absl::InvalidArgumentError(
        "candidate_sha256 is not the digest of candidate_source; send the source again");
  return absl::OkStatus();
}

absl::StatusOr<v1::Policy> CompletePolicy(const v1::Policy& asked) {
  v1::Policy policy = asked;
  std::vector<std::string> problems;
  if (policy.name().empty())
    policy.set_name("paper");
  if (CompleteFromBuiltIn(&policy))
    CheckPrecision(policy, &problems);
  else
    problems.push_back(
        absl::StrCat("there is no policy \"", EscapeLine(policy.name().substr(0, kNameMax)),
                     "\"; the built-in ones are: ", absl::StrJoin(BuiltInPolicyNames(), ", ")));
  CheckTolerances(policy, &problems);
  for (const CountField& field : kCountFields)
    CompleteCount(field, &policy, &problems);
  const uint64_t memory = policy.memory_bytes_max();
  if (memory != 0 && (memory < kMemoryBytesMin || memory > kMemoryBytesMax))
    problems.push_back(absl::StrCat("policy.memory_bytes_max is ", memory, "; it must be ",
                                    kMemoryBytesMin, " to ", kMemoryBytesMax,
                                    ", or 0 for the worker's own limit"));
  if (!problems.empty())
    return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
  return policy;
}

PolicyTimes ToPolicyTimes(const v1::Policy& policy) {
  return {.queue_timeout = Milliseconds(policy.queue_timeout_ms()),
          .compile_timeout = Milliseconds(policy.compile_timeout_ms()),
          .build_timeout = Milliseconds(policy.build_timeout_ms()),
          .load_timeout = Milliseconds(policy.load_timeout_ms()),
          .first_call_timeout = Milliseconds(policy.first_call_timeout_ms()),
          .call_timeout = Milliseconds(policy.call_timeout_ms()),
          .timed_max = Milliseconds(policy.timed_ms_max()),
          .correctness_trials = policy.correctness_trials(),
          .warmup_calls = policy.warmup_calls()};
}

std::string TaskVersion(const v1::TaskRecord& task) {
  return Sha256Hex(absl::StrCat("pike-task-1\n", task.source_sha256(), "\n", task.entry_reference(),
                                "\n", task.weight_seed(), "\n", task.loader_version(), "\n"));
}

std::string RequestDigest(const v1::SubmitRequest& request, const v1::Policy& policy) {
  // Complete policies of one build serialise alike; a digest never leaves this coordinator's log.
  return Sha256Hex(absl::StrCat("pike-submit-1\n", request.task_version(), "\n",
                                Sha256Hex(request.candidate_source()), "\n",
                                Sha256Hex(request.gpu_class()), "\n", request.toolchain_digest(),
                                "\n", policy.SerializeAsString()));
}

std::string ContestOf(const std::string& task_version, const v1::Policy& policy) {
  return Sha256Hex(
      absl::StrCat("pike-contest-1\n", task_version, "\n", policy.SerializeAsString()));
}

std::string ToPageToken(const PageStart& start) {
  return absl::StrCat(start.unix_ms, ":", start.id);
}

absl::StatusOr<PageStart> ParsePageToken(const std::string& token) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(token, absl::MaxSplits(':', 1));
  PageStart start{.id = parts.second};
  if (!absl::SimpleAtoi(parts.first, &start.unix_ms) || start.id.empty())
    return absl::InvalidArgumentError(
        "page_token is malformed; send next_page_token of the page before, or nothing");
  return start;
}

size_t PageSize(uint32_t asked) {
  return asked == 0 ? kPageSizeDefault : std::min(asked, kPageSizeMax);
}

}  // namespace pike::coordinator
