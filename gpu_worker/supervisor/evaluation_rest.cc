// How an evaluation waits for its device to come to rest before it times, and whose fault it is if
// it does not.

#include <absl/strings/str_cat.h>

#include "gpu_worker/supervisor/evaluation.h"
#include "gpu_worker/supervisor/json_frame.h"

namespace pike::gpu {
namespace {

using std::chrono::milliseconds;

// For the judge's answer, beyond the time that it waits itself.
constexpr milliseconds kSettleGrace{10'000};

bool IsMemoryShort(const v1::Quietness& quietness) {
  return quietness.memory_free_bytes() < quietness.memory_floor_bytes();
}

// The judge had no memory for its known piece of work.
bool IsMemoryTaken(const v1::Quietness& quietness) {
  return quietness.sentinel_us() <= 0;
}

std::string UnrestText(const v1::Quietness& quietness) {
  if (IsMemoryShort(quietness))
    return absl::StrCat("memory of nobody is not back: ", quietness.memory_free_bytes(),
                        " bytes are free instead of ", quietness.memory_floor_bytes());
  if (IsMemoryTaken(quietness))
    return "there is no memory for a known piece of work";
  return absl::StrCat("it does not come to rest: a known piece of work takes ",
                      quietness.sentinel_us(), " us instead of ", quietness.baseline_us());
}

}  // namespace

bool Evaluation::IsAtRest(uint64_t memory_floor_bytes) {
  const milliseconds timeout = context_.node->options().settle_timeout;
  const std::optional<nlohmann::json> answer = Ask({{"type", "settle"},
                                                    {"timeout_ms", timeout.count()},
                                                    {"memory_floor_bytes", memory_floor_bytes}},
                                                   {}, timeout + kSettleGrace);
  if (!answer)
    return false;
  if (TextOf(*answer, "type") == "task_failed") {
    SeeTaskFailed(*answer);
    return false;
  }
  v1::Quietness* quietness = report_.evidence.mutable_quietness();
  quietness->set_sentinel_us(NumberOf(*answer, "sentinel_us"));
  quietness->set_baseline_us(NumberOf(*answer, "baseline_us"));
  quietness->set_settle_ms(NumberOf(*answer, "elapsed_ms"));
  quietness->set_memory_free_bytes(CountOf(*answer, "memory_free_bytes"));
  quietness->set_memory_floor_bytes(memory_floor_bytes);
  return FlagOf(*answer, "is_quiet");
}

void Evaluation::Settle(uint64_t memory_floor_bytes) {
  if (!bench_->facts.has_device_frames || IsAtRest(memory_floor_bytes) || seen_)
    return;
  const v1::Quietness before = report_.evidence.quietness();
  Observation seen;
  seen.phase = Phase::kMeasure;
  seen.text = UnrestText(before);
  if (!context_.is_alone && party_->has_company() && !IsMemoryShort(before)) {
    // What a neighbour had queued runs on while it stands still, so it can be anyone's.
    seen.event = Event::kWorkLeft;
    See(std::move(seen));
    return;
  }
  seen.event = Event::kDeviceFault;
  // Only these two can have left work there. One that can come to rest without it is healthy.
  for (RunnerLink* link : {candidate_.get(), reference_.get()}) {
    if (IsMemoryShort(before))
      break;
    link->End(MonoNow());
    if (!IsAtRest(memory_floor_bytes)) {
      if (seen_)
        return;
      continue;
    }
    seen.event = Event::kWorkLeft;
    seen.side = link->side();
    seen.is_memory_exception = IsMemoryTaken(before);
    absl::StrAppend(&seen.text, "; it came to rest once its process was ended");
    break;
  }
  See(std::move(seen));
}

}  // namespace pike::gpu
