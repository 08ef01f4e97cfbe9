#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "gpu_worker/judge/bench_device.h"

namespace pike::gpu {

// What torch calls the element type of a tensor that can cross, and the other way round; nothing
// for one that cannot.
std::optional<at::ScalarType> FindScalarType(const TensorSpec& spec);
bool SetElementType(at::ScalarType type, TensorSpec& spec);

// CompareElements in operations of torch, for tensors on any one device: the same counts and first
// mismatch, errors equal up to rounding. Works in pieces, so that it needs little memory beside a
// packed copy of `actual` where that is not contiguous. Throws c10::Error.
TensorError CompareTensors(const at::Tensor& expected, const at::Tensor& actual,
                           const Tolerance& tolerance);

// The same for memory of device cuda:0.
std::optional<TaskFailure> CompareOnGpu(const PlacedTensor& expected, const PlacedTensor& actual,
                                        const Tolerance& tolerance, TensorError& error);

// `exception` as a failure at `where`; want of memory is told.
TaskFailure ExplainTorchError(const std::exception& exception, const char* where);

}  // namespace pike::gpu
