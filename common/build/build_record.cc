#include "common/build/build_record.h"

#include <algorithm>

#include <absl/strings/string_view.h>

#include "common/base/text.h"

namespace pike::build {
namespace {

// Of each part of a stream, escaped. A result holds many records, and the coordinator many results.
constexpr size_t kOutputBytesMax = 16 << 10;
// Of all output of a result's builds; those beyond it keep their first error only.
constexpr size_t kOutputsBytesMax = 512 << 10;
constexpr int kKilledStatus = -9;

// As much of the start, or of the end, as has at most kOutputBytesMax bytes once it is escaped.
std::string Fit(absl::string_view bytes, bool is_end) {
  size_t size = std::min(bytes.size(), kOutputBytesMax);
  while (true) {
    std::string text =
        EscapeUntrusted(is_end ? bytes.substr(bytes.size() - size) : bytes.substr(0, size), size);
    if (text.size() <= kOutputBytesMax)
      return text;
    size = size * kOutputBytesMax / text.size();  // smaller each time
  }
}

CappedOutput FromOutputTail(const v1::OutputTail& tail) {
  return {tail.head(), tail.tail(), tail.bytes_total()};
}

}  // namespace

v1::OutputTail ToOutputTail(const CappedOutput& output) {
  v1::OutputTail tail;
  tail.set_head(Fit(output.head, /*is_end=*/false));
  tail.set_tail(Fit(output.tail, /*is_end=*/true));
  tail.set_bytes_total(output.bytes_total);
  return tail;
}

v1::BuildError ToBuildError(const BuildFailure& failure) {
  v1::BuildError error;
  error.set_first_error(EscapeLine(failure.first_error));
  error.set_file(EscapeLine(failure.file));
  error.set_line(failure.line);
  error.set_tool(failure.tool);
  error.set_exit_status(failure.exit_status);
  if (failure.kind == BuildFailureKind::kTimeout && failure.exit_status == 0)
    error.set_exit_status(kKilledStatus);
  *error.mutable_stdout_tail() = ToOutputTail(failure.stdout_text);
  *error.mutable_stderr_tail() = ToOutputTail(failure.stderr_text);
  return error;
}

v1::BuildRecord ToBuildRecord(const BuildOutcome& outcome, const std::string& extension_name,
                              bool is_late) {
  v1::BuildRecord record;
  record.set_name(EscapeLine(extension_name));
  record.set_key(outcome.key);
  record.set_build_ms(outcome.build_ms);
  record.set_reused(outcome.is_reused);
  record.set_late(is_late);
  if (outcome.artifact != nullptr)
    record.set_artifact_sha256(outcome.artifact->sha256());
  if (outcome.failure != nullptr)
    *record.mutable_error() = ToBuildError(*outcome.failure);
  return record;
}

void BoundOutputs(google::protobuf::RepeatedPtrField<v1::BuildRecord>* records) {
  size_t bytes = 0;
  for (v1::BuildRecord& record : *records) {
    if (!record.has_error())
      continue;
    v1::BuildError* error = record.mutable_error();
    bytes += error->stdout_tail().ByteSizeLong() + error->stderr_tail().ByteSizeLong();
    if (bytes <= kOutputsBytesMax)
      continue;
    error->clear_stdout_tail();
    error->clear_stderr_tail();
  }
}

std::shared_ptr<const BuildFailure> FailureOfRecord(const v1::BuildRecord& record) {
  if (!record.has_error())
    return nullptr;
  const v1::BuildError& error = record.error();
  auto failure = std::make_shared<BuildFailure>();
  if (error.tool() == "broker")
    failure->kind = BuildFailureKind::kRefused;
  else if (error.exit_status() == kKilledStatus)
    failure->kind = BuildFailureKind::kTimeout;
  failure->first_error = error.first_error();
  failure->file = error.file();
  failure->line = error.line();
  failure->tool = error.tool();
  failure->exit_status = error.exit_status();
  failure->stdout_text = FromOutputTail(error.stdout_tail());
  failure->stderr_text = FromOutputTail(error.stderr_tail());
  return failure;
}

v1::Toolchain ToProto(const Toolchain& toolchain) {
  v1::Toolchain proto;
  proto.set_digest(toolchain.Digest());
  proto.set_runtime_digest(toolchain.RuntimeDigest());
  proto.set_python_abi(toolchain.python_abi);
  proto.set_torch_version(toolchain.torch_version);
  proto.set_triton_version(toolchain.triton_version);
  proto.set_torch_cuda_version(toolchain.torch_cuda_version);
  proto.set_nvcc_version(toolchain.nvcc_version);
  proto.set_gxx_version(toolchain.gxx_version);
  proto.set_libc(toolchain.libc);
  return proto;
}

}  // namespace pike::build
