#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/compare_policy.h"
#include "gpu_worker/judge/runner_side.h"
#include "gpu_worker/judge/task_source.h"
#include "gpu_worker/judge/value_tree.h"

namespace pike::gpu {

// Error of one output tensor over all calls; fields as pike.v1 OutputError.
struct OutputRecord {
  std::string path;
  TensorSpec spec = {};
  TensorError worst;  // maxima over the calls; the mismatch is that of the first failing call
};

// Compares the outputs of one runner with the reference's and keeps the sums over an evaluation.
class OutputCheck {
 public:
  static constexpr std::size_t kOutputsMax = 64;

  // The device must outlive it.
  OutputCheck(BenchDevice& device, ComparePolicy policy)
      : device_(device), policy_(std::move(policy)) {}

  // Compares one call; `call` is its number from 1. Bytes of an output are read only if structure,
  // dtype, shape and device are as expected. True if all is within tolerance. If the comparison
  // itself fails, task_failure() says why.
  bool Add(uint32_t call, const TaskValue& expected, const RunnerOutput& actual);

  uint32_t calls_compared() const { return calls_compared_; }
  uint32_t calls_passed() const { return calls_passed_; }
  bool is_input_mutated() const { return is_input_mutated_; }
  // Of all outputs of the calls that passed, "" if there were none: the class, and the largest
  // RelativeError of floating ones.
  std::string_view precision_class() const;
  double precision_error() const { return precision_error_; }
  // One line about the first failing call; empty if none failed.
  const std::string& first_failure() const { return first_failure_; }
  const std::vector<OutputRecord>& outputs() const { return outputs_; }
  const std::optional<TaskFailure>& task_failure() const { return task_failure_; }

 private:
  // The first thing that is wrong, empty if nothing is.
  std::string FindFailure(const TaskValue& expected, const RunnerOutput& actual);
  std::string CheckLeaf(const LeafPair& leaf, const TaskValue& expected,
                        const RunnerOutput& actual);
  std::string CheckTensor(const LeafPair& leaf, const TaskTensor& expected,
                          const RunnerOutput& actual);
  // Whether its precision is the least that the policy asks for.
  std::string CheckPrecision(const std::string& path, double error) const;
  void Record(const std::string& path, const TensorSpec& spec, const TensorError& error);

  BenchDevice& device_;
  const ComparePolicy policy_;
  std::optional<TaskFailure> task_failure_;
  uint32_t calls_compared_ = 0;
  uint32_t calls_passed_ = 0;
  bool is_input_mutated_ = false;
  bool is_exact_ = true;
  double precision_error_ = 0;
  std::string first_failure_;
  std::vector<OutputRecord> outputs_;
};

}  // namespace pike::gpu
