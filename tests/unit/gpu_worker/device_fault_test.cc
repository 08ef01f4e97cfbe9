#include "gpu_worker/core/device_fault.h"

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

Observation SeenOf(Event event, Side side, const char* load_where = "") {
  Observation seen;
  seen.event = event;
  seen.side = side;
  seen.load_where = load_where;
  return seen;
}

TEST_CASE("CanBeDeviceFault: failures of a candidate that ran") {
  for (const Event event : {Event::kProcessGone, Event::kDeadline, Event::kCallFailed,
                            Event::kMismatch, Event::kWorkLeft}) {
    CHECK(CanBeDeviceFault(SeenOf(event, Side::kCandidate)));
    CHECK_FALSE(CanBeDeviceFault(SeenOf(event, Side::kReference)));
    CHECK_FALSE(CanBeDeviceFault(SeenOf(event, Side::kJudge)));
  }
  CHECK(CanBeDeviceFault(SeenOf(Event::kLoadFailed, Side::kCandidate, "constructor")));
  CHECK(CanBeDeviceFault(SeenOf(Event::kLoadFailed, Side::kCandidate, "import")));
  CHECK_FALSE(CanBeDeviceFault(SeenOf(Event::kLoadFailed, Side::kCandidate, "parse")));
  CHECK_FALSE(CanBeDeviceFault(SeenOf(Event::kLoadFailed, Side::kCandidate, "entry")));
  CHECK_FALSE(CanBeDeviceFault(SeenOf(Event::kViolation, Side::kCandidate)));
  CHECK_FALSE(CanBeDeviceFault(SeenOf(Event::kDone, Side::kNone)));
}

TEST_CASE("ShowsHealthyDevice: only where the reference's outputs were right") {
  CHECK(ShowsHealthyDevice(SeenOf(Event::kDone, Side::kNone)));
  Observation wrong = SeenOf(Event::kMismatch, Side::kCandidate);
  CHECK(ShowsHealthyDevice(wrong));
  wrong.is_reference_mismatch = true;
  CHECK_FALSE(ShowsHealthyDevice(wrong));
  for (const Event event : {Event::kLoadFailed, Event::kProcessGone, Event::kDeadline,
                            Event::kCallFailed, Event::kViolation, Event::kCancelled})
    CHECK_FALSE(ShowsHealthyDevice(SeenOf(event, Side::kCandidate)));
}

}  // namespace
}  // namespace pike::gpu
