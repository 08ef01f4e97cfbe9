#include "gpu_worker/judge/call_transport.h"

#include <string.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"
#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/element_type.h"

namespace pike::gpu {
namespace {

std::size_t AlignUp(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// The end of the last tensor that a reply describes; nothing if the description is malformed.
std::optional<std::size_t> FindOutputEnd(const CallRecord& reply, std::size_t buffer_bytes) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < reply.tensor_count; ++i) {
    const TensorSpec& spec = reply.tensors[i];
    const std::optional<uint64_t> bytes = FindSpan(spec);
    if (!bytes || *bytes > buffer_bytes || spec.offset > buffer_bytes - *bytes ||
        spec.offset % kBufferAlignment != 0)
      return std::nullopt;
    end = std::max<std::size_t>(end, spec.offset + *bytes);
  }
  return end;
}

class BufferTransport : public CallTransport {
 public:
  BufferTransport(BenchDevice& device, NewExchange new_exchange)
      : device_(device), new_exchange_(std::move(new_exchange)) {}

  std::optional<TaskFailure> Prepare(std::size_t input_bytes, std::size_t output_bytes_max,
                                     CallRecord& prepare, std::vector<int>& fds) override {
    const bool has_room =
        input_ && output_ && input_->size() >= input_bytes && output_->size() >= output_bytes_max;
    if (!has_room) {
      input_.reset();  // first, so that both need not fit at once
      output_.reset();
      std::optional<TaskFailure> failure = new_exchange_(input_bytes, input_);
      if (!failure)
        failure = new_exchange_(output_bytes_max, output_);
      if (failure) {
        output_.reset();
        return failure;
      }
      prepare.flags |= input_->flags();
      fds = {input_->fd(), output_->fd()};
    }
    prepare.input_buffer_bytes = input_->size();
    prepare.output_buffer_bytes = output_->size();
    return device_.Finish();  // nothing of ours runs on when the clock starts
  }

  std::string TakeDescriptor(UniqueFd /*fd*/) override { return ""; }

  std::optional<TaskFailure> Reveal(const TaskValue& input, CallRecord& call,
                                    std::vector<int>& /*fds*/) override {
    for (std::size_t i = 0; i < input.tensors.size(); ++i) {
      const TensorSpec& spec = call.tensors[i];
      std::optional<TaskFailure> failure =
          input_->Write(spec.offset, input.tensors[i].bytes, PackedBytes(spec).value_or(0));
      if (failure)
        return failure;
    }
    return device_.Finish();
  }

  TakenOutputs Take(const CallRecord& reply, std::unique_ptr<PrivateBuffer>& snapshot) override {
    const std::optional<std::size_t> end = FindOutputEnd(reply, output_->size());
    if (!end)
      return {std::nullopt, "a malformed reply was sent"};
    TakenOutputs taken;
    if (snapshot == nullptr || *end > snapshot->size()) {
      snapshot.reset();
      taken.failure = device_.NewPrivate(*end, snapshot);
    }
    if (!taken.failure)
      taken.failure = output_->Read(snapshot->bytes(), *end);
    if (!taken.failure)
      taken.failure = device_.Finish();
    return taken;
  }

  void Arrange(CallRecord& /*reply*/, PrivateBuffer& /*snapshot*/) override {}
  // They take microseconds there.
  uint64_t copy_ns() const override { return 0; }

 private:
  BenchDevice& device_;
  const NewExchange new_exchange_;
  std::unique_ptr<ExchangeBuffer> input_;
  std::unique_ptr<ExchangeBuffer> output_;
};

}  // namespace

std::unique_ptr<CallTransport> NewBufferTransport(BenchDevice& device, NewExchange new_exchange) {
  return std::make_unique<BufferTransport>(device, std::move(new_exchange));
}

std::size_t BufferBytes(const TaskValue& value) {
  std::size_t bytes = 0;
  for (const TaskTensor& tensor : value.tensors)
    bytes += AlignUp(PackedBytes(tensor.spec).value_or(0));
  return bytes;
}

bool PlaceTensors(const TaskValue& input, CallRecord& call) {
  if (input.text.size() > kTextBytesMax || input.tensors.size() > kTensorsMax)
    return false;
  call.text_bytes = static_cast<uint32_t>(input.text.size());
  memcpy(call.text, input.text.data(), input.text.size());
  call.tensor_count = static_cast<uint32_t>(input.tensors.size());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < input.tensors.size(); ++i) {
    call.tensors[i] = input.tensors[i].spec;
    call.tensors[i].offset = bytes;
    bytes += AlignUp(PackedBytes(input.tensors[i].spec).value_or(0));
  }
  return true;
}

std::optional<uint64_t> FindSpan(const TensorSpec& spec) {
  const std::optional<uint64_t> packed = PackedBytes(spec);
  if (!packed || *packed == 0)
    return packed;
  constexpr uint64_t kStepsMax = uint64_t{1} << 40;
  uint64_t last = 0;
  for (std::size_t i = 0; i < spec.dim_count; ++i) {
    const uint64_t steps = static_cast<uint64_t>(spec.dims[i]) - 1;
    if (spec.strides[i] < 0 || static_cast<uint64_t>(spec.strides[i]) > kStepsMax)
      return std::nullopt;
    const uint64_t stride = static_cast<uint64_t>(spec.strides[i]);
    if (steps > 0 && stride > kStepsMax / steps)
      return std::nullopt;
    last += steps * stride;  // at most 12 times 2^40
  }
  return (last + 1) * (spec.bits / 8u);
}

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

uint64_t SecretNumber() {
  uint64_t number = 0;
  PIKE_CHECK(getrandom(&number, sizeof(number), /*flags=*/0) ==
             static_cast<ssize_t>(sizeof(number)));
  return number;
}

}  // namespace pike::gpu
