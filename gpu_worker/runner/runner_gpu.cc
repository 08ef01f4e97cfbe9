#include "gpu_worker/runner/runner_gpu.h"

#include <cstddef>

namespace pike::gpu {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{256} << 20;  // as Triton's do_bench
constexpr unsigned kEventDefault = 0;

}  // namespace

std::string RunnerGpu::Explain(CuResult result) {
  is_out_of_memory_ = result == kCuOutOfMemory;
  return result == kCuSuccess ? "" : CudaErrorText(driver_, result);
}

std::string RunnerGpu::Start() {
  if (is_started_)
    return Activate();
  CuDevice device = 0;
  CuResult result = driver_.init(/*flags=*/0);
  if (result == kCuSuccess)
    result = driver_.device_get(&device, /*ordinal=*/0);
  if (result == kCuSuccess)
    result = driver_.primary_retain(&context_, device);
  if (result == kCuSuccess)
    result = driver_.set_current(context_);
  if (result == kCuSuccess)
    result = driver_.event_create(&start_, kEventDefault);
  if (result == kCuSuccess)
    result = driver_.event_create(&end_, kEventDefault);
  if (result == kCuSuccess)
    result = driver_.allocate(&flush_, kFlushBytes);
  is_started_ = result == kCuSuccess;
  return Explain(result);
}

std::string RunnerGpu::Activate() {
  return Explain(driver_.set_current(context_));
}

std::string RunnerGpu::Synchronise() {
  return Explain(driver_.synchronize());
}

std::string RunnerGpu::StartClock() {
  CuResult result = driver_.fill(flush_, /*value=*/0, kFlushBytes, /*stream=*/nullptr);
  if (result == kCuSuccess)
    result = driver_.event_record(start_, /*stream=*/nullptr);
  return Explain(result);
}

std::string RunnerGpu::StopClock(uint64_t& claim_ns) {
  float ms = 0;
  CuResult result = driver_.set_current(context_);
  if (result == kCuSuccess)
    result = driver_.synchronize();
  if (result == kCuSuccess)
    result = driver_.event_record(end_, /*stream=*/nullptr);
  if (result == kCuSuccess)
    result = driver_.event_synchronize(end_);
  if (result == kCuSuccess)
    result = driver_.event_elapsed(&ms, start_, end_);
  claim_ns = static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
  return Explain(result);
}

}  // namespace pike::gpu
