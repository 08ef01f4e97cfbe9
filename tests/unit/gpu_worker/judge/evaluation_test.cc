// The judge's side of the call protocol against a runner that is scripted: its records are in the
// socket before the judge looks, or written by the supervisor's order in the middle of a call.

#include "gpu_worker/judge/evaluation.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu_worker/judge/result_json.h"
#include "gpu_worker/runner/input_mapping.h"
#include "gpu_worker/runner/record_channel.h"
#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

// A task whose input is one float and whose reference doubles it.
class DoublingTask : public TaskSource {
 public:
  std::optional<TaskFailure> ResetReference() override { return std::nullopt; }
  std::optional<TaskFailure> Stock(const StockLimits& limits,
                                   const std::function<bool()>& /*is_aborted*/) override {
    stock_ = limits.inputs;
    return std::nullopt;
  }
  std::size_t stock() const override { return stock_; }
  std::size_t stock_bytes() const override { return stock_ * sizeof(float); }
  std::optional<TaskFailure> NextInput(TaskValue& input) override {
    stock_ -= stock_ > 0 ? 1 : 0;
    input_ += 1;
    input = Describe("(T)", input_);
    auto file = std::make_shared<InputFile>();
    std::optional<TaskFailure> failure = MakeInputFile(input, *file);
    input.file = std::move(file);
    return failure;
  }
  std::optional<TaskFailure> RunReference(uint64_t /*rng_seed*/, TaskValue& output) override {
    output_ = 2 * input_;
    output = Describe("T", output_);
    return std::nullopt;
  }

  static TensorSpec FloatSpec() {
    TensorSpec spec = {};
    spec.type_code = 2;
    spec.bits = 32;
    return spec;
  }

 private:
  static TaskValue Describe(const char* text, const float& number) {
    return {text, {{FloatSpec(), reinterpret_cast<const uint8_t*>(&number)}}, nullptr};
  }

  std::size_t stock_ = 0;
  float input_ = 0;
  float output_ = 0;
};

struct Socket {
  Socket() {
    int fds[2] = {};
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    judge.Reset(fds[0]);
    runner.Reset(fds[1]);
  }
  UniqueFd judge;
  UniqueFd runner;
};

// Takes the record that the judge has sent and answers a call as `fill` says. False if there is no
// call: the judge sends other records and looks at the supervisor's channel before it, too.
bool Answer(int fd, const std::function<void(CallRecord&)>& fill) {
  CallRecord call = {};
  if (recv(fd, &call, sizeof(call), MSG_DONTWAIT) != static_cast<ssize_t>(sizeof(call)))
    return false;
  CallRecord reply = {};
  reply.magic = kCallMagic;
  reply.kind = call.kind == RecordKind::kPrepare ? RecordKind::kReady
               : call.kind == RecordKind::kCall  ? RecordKind::kReply
                                                 : RecordKind::kReleased;
  reply.nonce = call.nonce;
  const bool is_call = call.kind == RecordKind::kCall;
  if (is_call)
    fill(reply);
  const UniqueFd memory(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  REQUIRE(SendRecord(fd, reply, memory.get()));
  return is_call;
}

// An evaluation whose runner answers once the judge looks at the supervisor's channel, which is
// readable all the time.
struct Scene {
  OperationResult Run(const std::function<ControlOrder()>& on_control) {
    Socket supervisor;
    REQUIRE(send(supervisor.runner.get(), "x", 1, 0) == 1);
    Control control = {supervisor.judge.get(), on_control};
    evaluation = std::make_unique<Evaluation>(
        Bench{task, *device, /*output_bytes_typical=*/4},
        EvaluationPolicy{.compare = {}, .first_call_timeout = timeout, .call_timeout = timeout},
        std::move(candidate.judge), std::move(reference.judge));
    return evaluation->FirstCall(control);
  }
  OperationResult RunAnswer(const std::function<void(CallRecord&)>& fill) {
    return Run([&] {
      Answer(candidate.runner.get(), fill);
      return ControlOrder::kNone;
    });
  }

  DoublingTask task;
  const std::unique_ptr<BenchDevice> device = NewHostDevice();
  Socket candidate;
  Socket reference;
  std::chrono::milliseconds timeout{20'000};
  std::unique_ptr<Evaluation> evaluation;
};

TEST_CASE("Evaluation: a record before its call is a violation") {
  Scene scene;
  REQUIRE(SendRecord(scene.candidate.runner.get(),
                     CallRecord{.magic = kCallMagic, .kind = RecordKind::kReply}, /*fd=*/-1));
  const OperationResult result = scene.Run([] { return ControlOrder::kNone; });
  CHECK(result.outcome == Outcome::kViolation);
  CHECK(result.side == SideName::kCandidate);
  CHECK(result.text == "a record was sent before it was asked for");
}

TEST_CASE("Evaluation: a record of a wrong size is a violation") {
  Scene scene;
  const std::size_t bytes = GENERATE(std::size_t{0}, std::size_t{1}, sizeof(CallRecord) + 1);
  const std::vector<char> record(bytes);
  REQUIRE(send(scene.candidate.runner.get(), record.data(), bytes, 0) ==
          static_cast<ssize_t>(bytes));
  CHECK(scene.Run([] { return ControlOrder::kNone; }).outcome == Outcome::kViolation);
}

TEST_CASE("Evaluation: a reply with a wrong nonce, magic or kind is a violation") {
  Scene scene;
  const int field = GENERATE(0, 1, 2);
  const OperationResult result = scene.RunAnswer([field](CallRecord& reply) {
    reply.nonce += field == 0 ? 1 : 0;
    reply.magic += field == 1 ? 1u : 0u;
    reply.kind = field == 2 ? RecordKind::kCall : RecordKind::kReply;
  });
  CHECK(result.outcome == Outcome::kViolation);
}

TEST_CASE("Evaluation: a malformed description is a violation") {
  Scene scene;
  const int field = GENERATE(0, 1, 2, 3, 4, 5, 6, 7);
  const OperationResult result = scene.RunAnswer([field](CallRecord& reply) {
    reply.status = static_cast<CallStatus>(field == 7 ? 5 : 0);
    reply.tensor_count = field == 0 ? 65 : 1;
    reply.text_bytes = field == 1 ? kTextBytesMax + 1 : 1;
    reply.text[0] = 'T';
    reply.tensors[0] = DoublingTask::FloatSpec();
    reply.tensors[0].strides[0] = field == 2 ? -1 : 1;
    reply.tensors[0].bits = field == 3 ? 31 : 32;
    reply.tensors[0].dim_count = field == 4 ? 13 : 1;
    reply.tensors[0].dims[0] = field == 5 ? -1 : field == 6 ? int64_t{1} << 38 : 1;
  });
  CHECK(result.outcome == Outcome::kViolation);
  CHECK(result.text == "a malformed reply was sent");
}

TEST_CASE("Evaluation: an output where there is no memory is a violation") {
  Scene scene;
  const uint64_t address = GENERATE(uint64_t{0}, uint64_t{1} << 46, ~uint64_t{0});
  const OperationResult result = scene.RunAnswer([address](CallRecord& reply) {
    reply.tensor_count = 1;
    reply.text_bytes = 1;
    reply.text[0] = 'T';
    reply.tensors[0] = DoublingTask::FloatSpec();
    reply.tensors[0].offset = address;
  });
  CHECK(result.outcome == Outcome::kViolation);
  CHECK(result.text == "an output lies where its runner has no memory");
}

TEST_CASE("Evaluation: outputs are read from the runner's memory, whatever their layout") {
  float numbers[4] = {0, 2, 0, 0};  // the right answer among others
  Scene scene;
  const OperationResult result = scene.Run([&] {
    for (const Socket* socket : {&scene.candidate, &scene.reference}) {
      Answer(socket->runner.get(), [&](CallRecord& reply) {
        reply.tensor_count = 1;
        reply.text_bytes = 1;
        reply.text[0] = 'T';
        reply.tensors[0] = DoublingTask::FloatSpec();
        reply.tensors[0].offset = reinterpret_cast<uint64_t>(&numbers[1]);
      });
    }
    return ControlOrder::kNone;
  });
  CHECK(result.outcome == Outcome::kDone);
  CHECK(scene.evaluation->candidate_check().calls_passed() == 1);
}

TEST_CASE("HostTransport: takes the memory of a process and no other descriptor") {
  const std::unique_ptr<CallTransport> transport = NewHostTransport();
  CHECK_FALSE(transport->TakeDescriptor(UniqueFd()).empty());
  CHECK_FALSE(transport->TakeDescriptor(UniqueFd(open("/proc/self/maps", O_RDONLY))).empty());
  CHECK_FALSE(transport->TakeDescriptor(UniqueFd(open("/dev/zero", O_RDONLY))).empty());
  CHECK(transport->TakeDescriptor(UniqueFd(open("/proc/self/mem", O_RDONLY))).empty());
  CHECK(transport->TakeDescriptor(UniqueFd()).empty());  // needed once
}

TEST_CASE("HostTransport: strided outputs are packed off the clock") {
  const std::unique_ptr<CallTransport> transport = NewHostTransport();
  REQUIRE(transport->TakeDescriptor(UniqueFd(open("/proc/self/mem", O_RDONLY))).empty());
  CallRecord record = {};
  std::vector<int> fds;
  REQUIRE_FALSE(transport->Prepare(0, /*output_bytes_max=*/std::size_t{1} << 20, record, fds));
  std::vector<float> column(200 * 300);
  for (std::size_t i = 0; i < column.size(); ++i)
    column[i] = static_cast<float>(i);
  CallRecord reply = {};
  reply.tensor_count = 2;
  for (std::size_t i = 0; i < 2; ++i) {
    reply.tensors[i] = DoublingTask::FloatSpec();
    reply.tensors[i].dim_count = 2;
    reply.tensors[i].offset = reinterpret_cast<uint64_t>(column.data());
  }
  const int64_t layouts[2][4] = {{200, 300, 1, 200}, {300, 7, 0, 1}};  // sizes, then strides
  for (std::size_t i = 0; i < 2; ++i) {
    std::copy_n(layouts[i], 2, reply.tensors[i].dims);
    std::copy_n(layouts[i] + 2, 2, reply.tensors[i].strides);
  }
  std::unique_ptr<PrivateBuffer> snapshot;
  const TakenOutputs taken = transport->Take(reply, snapshot);
  REQUIRE(taken.violation.empty());
  transport->Arrange(reply, *snapshot);
  const auto* first = reinterpret_cast<const float*>(snapshot->bytes() + reply.tensors[0].offset);
  CHECK(first[0] == 0);
  CHECK(first[1] == 200);
  CHECK(first[300 * 199 + 299] == 59999);
  const auto* second = reinterpret_cast<const float*>(snapshot->bytes() + reply.tensors[1].offset);
  CHECK(second[7 * 299 + 6] == 6);
}

TEST_CASE("MakeInputFile: nobody can change it") {
  const float number = 1;
  TaskValue input = {
      "(T)", {{DoublingTask::FloatSpec(), reinterpret_cast<const uint8_t*>(&number)}}, nullptr};
  InputFile file;
  REQUIRE_FALSE(MakeInputFile(input, file));
  CHECK(pwrite(file.fd.get(), "x", 1, 0) < 0);
  CHECK(ftruncate(file.fd.get(), 0) != 0);
  CHECK(ftruncate(file.fd.get(), 1 << 20) != 0);
  CHECK(mmap(nullptr, 4, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd.get(), 0) == MAP_FAILED);
  InputMapping* const mapping = InputMapping::Map(file.fd.get(), file.size);
  REQUIRE(mapping != nullptr);
  CHECK(mapping->IsUnchanged(file.fd.get()));
  mapping->bytes()[1] = 1;
  CHECK_FALSE(mapping->IsUnchanged(file.fd.get()));
  mapping->Release();
  float read = 0;
  CHECK(pread(file.fd.get(), &read, sizeof(read), 0) == sizeof(read));
  CHECK(read == 1);
}

TEST_CASE("Evaluation: a claim above the judge's clock is a violation") {
  Scene scene;
  const OperationResult result = scene.RunAnswer([](CallRecord& reply) {
    reply.claim_ns = uint64_t{1} << 62;
    reply.text_bytes = 1;
    reply.text[0] = 'N';
  });
  CHECK(result.outcome == Outcome::kViolation);
}

TEST_CASE("Evaluation: a runner that is gone is told from one that is silent") {
  SECTION("gone before the call") {
    Scene scene;
    scene.candidate.runner.Reset();
    CHECK(scene.Run([] { return ControlOrder::kNone; }).outcome == Outcome::kRunnerGone);
  }
  SECTION("gone in the call") {
    Scene scene;
    const OperationResult result = scene.Run([&] {
      scene.candidate.runner.Reset();
      return ControlOrder::kNone;
    });
    CHECK(result.outcome == Outcome::kRunnerGone);
  }
  SECTION("silent") {
    Scene scene;
    scene.timeout = std::chrono::milliseconds(1);
    const OperationResult result = scene.Run([] { return ControlOrder::kResume; });
    CHECK(result.outcome == Outcome::kCallTimeout);
    CHECK(result.side == SideName::kCandidate);
  }
}

TEST_CASE("Evaluation: an order to abort ends the call") {
  Scene scene;
  const OperationResult result = scene.Run([] { return ControlOrder::kAbort; });
  CHECK(result.outcome == Outcome::kAborted);
  CHECK(result.side == SideName::kNone);
}

TEST_CASE("Evaluation: a reply during a hold does not let the judge go on") {
  Scene scene;
  bool has_answered = false;
  int looks = 0;  // after that; the judge looks before the call, too
  const OperationResult result = scene.Run([&] {
    if (Answer(scene.candidate.runner.get(), [](CallRecord&) {})) {
      has_answered = true;
      return ControlOrder::kHold;
    }
    looks += has_answered ? 1 : 0;
    return looks < 10 ? ControlOrder::kNone : ControlOrder::kAbort;
  });
  CHECK(looks == 10);
  CHECK(result.outcome == Outcome::kAborted);
}

TEST_CASE("Evaluation: no call is made while the supervisor holds") {
  Scene scene;
  int orders = 0;
  const OperationResult result = scene.Run([&] {
    ++orders;
    CHECK_FALSE(Answer(scene.candidate.runner.get(), [](CallRecord&) {}));
    return orders == 1  ? ControlOrder::kHold
           : orders < 5 ? ControlOrder::kNone
                        : ControlOrder::kAbort;
  });
  CHECK(orders == 5);
  CHECK(result.outcome == Outcome::kAborted);
}

TEST_CASE("Evaluation: a call that raised carries type and text") {
  Scene scene;
  const OperationResult result = scene.RunAnswer([](CallRecord& reply) {
    const std::string text("ValueError\0bad", 14);
    reply.status = CallStatus::kMemory;
    reply.text_bytes = static_cast<uint32_t>(text.size());
    memcpy(reply.text, text.data(), text.size());
  });
  CHECK(result.outcome == Outcome::kCallFailed);
  CHECK(result.kind == "memory");
  CHECK(result.error_type == "ValueError");
  CHECK(result.text == "bad");
}

TEST_CASE("Evaluation: a reply with another structure is a mismatch, and its bytes are not read") {
  Scene scene;
  const OperationResult result = scene.Run([&] {
    for (const Socket* socket : {&scene.candidate, &scene.reference}) {
      Answer(socket->runner.get(), [](CallRecord& reply) {
        reply.text_bytes = 2;
        memcpy(reply.text, "()", 2);
      });
    }
    return ControlOrder::kNone;
  });
  CHECK(result.outcome == Outcome::kMismatch);
  CHECK(result.side == SideName::kReference);
  CHECK(scene.evaluation->candidate_check().first_failure() ==
        "call 1: out: expected a tensor, got a tuple of 0");
  const std::string json = ResultToJson("first_call", result, scene.evaluation.get(), 1.5);
  CHECK(json.find(R"("outcome":"mismatch","side":"reference","call":1)") != std::string::npos);
  CHECK(json.find(R"("elapsed_ms":1.5,"correctness":{"calls_compared":1,"calls_passed":0)") !=
        std::string::npos);
}

TEST_CASE("TaskFailureToJson: text is escaped") {
  const std::string json =
      TaskFailureToJson({.where = "w", .kind = "k", .error_type = "E", .text = "a\"\n\\"});
  CHECK(json ==
        R"({"type":"task_failed","where":"w","kind":"k","error_type":"E","text":"a\"\u000a\\"})");
}

}  // namespace
}  // namespace pike::gpu
