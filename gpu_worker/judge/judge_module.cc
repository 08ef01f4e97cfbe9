// The Python module _pike_judge: what judge_main.py calls. One judge serves one task, so the module
// holds one session. Every function returns the text of a frame of PROTOCOL.md.

#include <Python.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/evaluation.h"
#include "gpu_worker/judge/gpu_device.h"
#include "gpu_worker/judge/python_policy.h"
#include "gpu_worker/judge/python_task.h"
#include "gpu_worker/judge/python_value.h"
#include "gpu_worker/judge/result_json.h"
#include "gpu_worker/judge/settle.h"
#include "gpu_worker/judge/torch_compare.h"
#include "gpu_worker/runner/cuda_driver.h"

namespace pike::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// In the order in which things depend on each other.
struct Session {
  PythonRef describe_error;
  PythonRef read_control;
  PythonRef ask_turn;
  Control control;
  std::unique_ptr<BenchDevice> device;
  std::unique_ptr<TaskSource> task;
  std::size_t output_bytes = 0;
  std::unique_ptr<Evaluation> evaluation;

  Bench bench() const { return {*task, *device, output_bytes}; }
};

// Never destroyed: the interpreter is gone before static destructors run.
Session& TheSession() {
  static Session* const session = new Session;
  return *session;
}

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

PyObject* ToPython(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PythonRef NewRef(PyObject* object) {
  Py_INCREF(object);
  return PythonRef(object);
}

// For requests out of order: a bug of the supervisor.
PyObject* Refuse(const char* why) {
  PyErr_SetString(PyExc_RuntimeError, why);
  return nullptr;
}

// Reads one order of the supervisor; an unreadable channel aborts.
ControlOrder ReadControl(PyObject* read_control) {
  const PythonRef order(PyObject_CallNoArgs(read_control));
  const long number = order ? PyLong_AsLong(order.get()) : -1;
  if (number < 0 || number > static_cast<long>(ControlOrder::kAbort)) {
    PyErr_Clear();
    return ControlOrder::kAbort;
  }
  return static_cast<ControlOrder>(number);
}

// A channel that is gone is noticed by the next read.
void AskTurn(PyObject* ask_turn, const char* side) {
  const PythonRef asked(PyObject_CallFunction(ask_turn, "s", side));
  if (!asked)
    PyErr_Clear();
}

// Whether the supervisor wants the operation in progress to end; waits for its word if asked to.
bool IsAborted(Control& control, milliseconds wait) {
  pollfd entry = {control.fd, POLLIN, 0};
  return poll(&entry, 1, static_cast<int>(wait.count())) > 0 &&
         control.read() == ControlOrder::kAbort;
}

// Two calls of a fresh reference: the first to learn the sizes, the second for its duration.
std::optional<TaskFailure> TryTask(TaskSource& task, TaskSummary& summary) {
  std::optional<TaskFailure> failure = task.ResetReference();
  for (int i = 0; i < 2 && !failure; ++i) {
    failure = task.NextInput(summary.input);
    if (failure)
      break;
    const Clock::time_point start = Clock::now();
    failure = task.RunReference(SecretNumber() >> 1, summary.output);
    summary.reference_ms = MsSince(start);
  }
  return failure;
}

std::optional<TaskFailure> OpenDevice(std::string_view device, bool use_memfd,
                                      std::unique_ptr<BenchDevice>& opened) {
  if (device == "cpu") {
    opened = NewHostDevice();
    return std::nullopt;
  }
  CudaDriver driver;
  std::string error = LoadCudaDriver(driver);
  if (!error.empty()) {
    return TaskFailure{
        .where = "device", .kind = "device", .error_type = "", .text = std::move(error)};
  }
  return NewGpuDevice(driver, {.use_memfd = use_memfd, .compare = CompareOnGpu}, opened);
}

// The judge keeps its device for the process's life.
PyObject* UseDevice(PyObject* /*self*/, PyObject* arguments) {
  const char* device = nullptr;
  const char* buffers = nullptr;
  if (PyArg_ParseTuple(arguments, "ss", &device, &buffers) == 0)
    return nullptr;
  Session& session = TheSession();
  std::optional<TaskFailure> failure;
  if (!session.device)
    failure = OpenDevice(device, std::string_view(buffers) == "memfd", session.device);
  return ToPython(failure ? TaskFailureToJson(*failure) : "");
}

PyObject* OpenTask(PyObject* /*self*/, PyObject* arguments) {
  PyObject* get_inputs = nullptr;
  PyObject* make_reference = nullptr;
  PyObject* seed_all = nullptr;
  PyObject* describe_error = nullptr;
  PyObject* read_control = nullptr;
  PyObject* ask_turn = nullptr;
  int control_fd = -1;
  if (PyArg_ParseTuple(arguments, "OOOOOOi", &get_inputs, &make_reference, &seed_all,
                       &describe_error, &read_control, &ask_turn, &control_fd) == 0)
    return nullptr;
  Session& session = TheSession();
  if (!session.device)
    return Refuse("no device is in use");
  session.describe_error = NewRef(describe_error);
  session.read_control = NewRef(read_control);
  session.ask_turn = NewRef(ask_turn);
  session.control = {.fd = control_fd,
                     .read = [read_control] { return ReadControl(read_control); },
                     .ask_turn = [ask_turn](const char* side) { AskTurn(ask_turn, side); }};
  session.evaluation.reset();
  session.task = MakePythonTask({.get_inputs = NewRef(get_inputs),
                                 .make_reference = NewRef(make_reference),
                                 .seed_all = NewRef(seed_all),
                                 .describe_error = NewRef(describe_error)},
                                *session.device);
  TaskSummary summary;
  const std::optional<TaskFailure> failure = TryTask(*session.task, summary);
  if (failure) {
    session.task.reset();
    return ToPython(TaskFailureToJson(*failure));
  }
  session.output_bytes = BufferBytes(summary.output);
  summary.device = session.device->Facts();
  const std::string text = TaskSummaryToJson(summary);
  session.task->ForgetReference();  // every evaluation begins with another
  return ToPython(text);
}

PyObject* Prepare(PyObject* /*self*/, PyObject* arguments) {
  StockLimits limits;
  unsigned long long bytes_max = 0;
  long long time_ms = 0;
  if (PyArg_ParseTuple(arguments, "IKL", &limits.inputs, &bytes_max, &time_ms) == 0)
    return nullptr;
  limits.bytes_max = bytes_max;
  limits.time_max = milliseconds(time_ms);
  Session& session = TheSession();
  if (!session.task)
    return Refuse("no task is open");
  const Clock::time_point start = Clock::now();
  const std::optional<TaskFailure> failure =
      session.task->Stock(limits, [&] { return IsAborted(session.control, milliseconds(0)); });
  return ToPython(failure ? TaskFailureToJson(*failure)
                          : PreparedToJson(*session.task, MsSince(start)));
}

PyObject* SettleDevice(PyObject* /*self*/, PyObject* arguments) {
  unsigned long long floor_bytes = 0;
  long long timeout_ms = 0;
  if (PyArg_ParseTuple(arguments, "LK", &timeout_ms, &floor_bytes) == 0)
    return nullptr;
  Session& session = TheSession();
  if (!session.task)
    return Refuse("no task is open");
  constexpr milliseconds kPause{2};
  const Clock::time_point start = Clock::now();
  SettleResult result;
  const std::optional<TaskFailure> failure =
      Settle([&](SentinelLook& look) { return session.device->LookAtSentinel(look); },
             {.timeout = milliseconds(timeout_ms), .memory_floor_bytes = floor_bytes},
             [&] { return IsAborted(session.control, kPause); }, result);
  return ToPython(failure ? TaskFailureToJson(*failure)
                          : SettledToJson(result.is_quiet, result.look, MsSince(start)));
}

PyObject* JitCall(PyObject* /*self*/, PyObject* arguments) {
  long long timeout_ms = 0;
  int candidate_fd = -1;
  if (PyArg_ParseTuple(arguments, "Li", &timeout_ms, &candidate_fd) == 0)
    return nullptr;
  UniqueFd candidate(candidate_fd);
  Session& session = TheSession();
  if (!session.task)
    return Refuse("no task is open");
  const Clock::time_point start = Clock::now();
  session.control.is_held = false;
  const OperationResult result = CallUnscored(session.bench(), std::move(candidate),
                                              milliseconds(timeout_ms), session.control);
  return ToPython(ResultToJson("jit_call", result, nullptr, MsSince(start)));
}

PyObject* Begin(PyObject* /*self*/, PyObject* arguments) {
  EvaluationPolicy policy;
  long long first_call_ms = 0;
  long long call_ms = 0;
  int candidate_fd = -1;
  int reference_fd = -1;
  PyObject* tolerances = nullptr;
  PyObject* classes = nullptr;
  const char* least = nullptr;
  ComparePolicy& compare = policy.compare;
  if (PyArg_ParseTuple(arguments, "ddOOsdLLii", &compare.tolerance.atol, &compare.tolerance.rtol,
                       &tolerances, &classes, &least, &compare.least.error_max, &first_call_ms,
                       &call_ms, &candidate_fd, &reference_fd) == 0)
    return nullptr;
  compare.least.name = least;
  UniqueFd candidate(candidate_fd);
  UniqueFd reference(reference_fd);
  if (!ReadComparePolicy(tolerances, classes, compare))
    return nullptr;
  policy.first_call_timeout = milliseconds(first_call_ms);
  policy.call_timeout = milliseconds(call_ms);
  Session& session = TheSession();
  session.evaluation.reset();
  if (!session.task)
    return Refuse("no task is open");
  const std::optional<TaskFailure> failure = session.task->ResetReference();
  if (failure)
    return ToPython(TaskFailureToJson(*failure));
  session.evaluation = std::make_unique<Evaluation>(session.bench(), policy, std::move(candidate),
                                                    std::move(reference));
  return ToPython(R"({"type":"begun"})");
}

template <typename Operation>
PyObject* Run(const char* op, Operation operation) {
  Session& session = TheSession();
  if (!session.evaluation)
    return Refuse("no evaluation is open");
  const Clock::time_point start = Clock::now();
  session.control.is_held = false;
  const OperationResult result = operation(*session.evaluation, session.control);
  return ToPython(ResultToJson(op, result, session.evaluation.get(), MsSince(start)));
}

PyObject* FirstCall(PyObject* /*self*/, PyObject* /*arguments*/) {
  return Run("first_call", [](Evaluation& evaluation, Control& control) {
    return evaluation.FirstCall(control);
  });
}

PyObject* Verify(PyObject* /*self*/, PyObject* arguments) {
  unsigned int calls = 0;
  if (PyArg_ParseTuple(arguments, "I", &calls) == 0)
    return nullptr;
  return Run("verify", [calls](Evaluation& evaluation, Control& control) {
    return evaluation.Verify(calls, control);
  });
}

PyObject* Measure(PyObject* /*self*/, PyObject* arguments) {
  MeasurePolicy policy;
  long long timed_ms = 0;
  int has_turns = 0;
  if (PyArg_ParseTuple(arguments, "IILp", &policy.warmup_calls, &policy.timed_calls_max, &timed_ms,
                       &has_turns) == 0)
    return nullptr;
  policy.has_turns = has_turns != 0;
  policy.timed_max = milliseconds(timed_ms);
  return Run("measure", [&policy](Evaluation& evaluation, Control& control) {
    return evaluation.Measure(policy, control);
  });
}

// Ends the evaluation, if one is open; closes both channels. Returns what was unexpected.
PyObject* End(PyObject* /*self*/, PyObject* /*arguments*/) {
  Session& session = TheSession();
  const std::string violation = session.evaluation ? session.evaluation->Finish() : "";
  session.evaluation.reset();
  return ToPython(violation);
}

// Both comparisons of two tensors on one device, as (mismatched, first or -1, abs, rel) twice: by
// compare.cc on packed copies in host memory and by torch where they are. For tests.
PyObject* CompareBoth(PyObject* /*self*/, PyObject* arguments) {
  PyObject* expected = nullptr;
  PyObject* actual = nullptr;
  Tolerance tolerance;
  if (PyArg_ParseTuple(arguments, "OOdd", &expected, &actual, &tolerance.atol, &tolerance.rtol) ==
      0)
    return nullptr;
  const auto [by_host, by_torch] = CompareBothWays(expected, actual, tolerance);
  const auto first = [](const TensorError& error) {
    return error.first_mismatch ? static_cast<long long>(*error.first_mismatch) : -1;
  };
  return Py_BuildValue("((KLdddd)(KLdddd))", by_host.mismatched, first(by_host),
                       by_host.max_abs_error, by_host.max_rel_error, by_host.expected_value,
                       by_host.actual_value, by_torch.mismatched, first(by_torch),
                       by_torch.max_abs_error, by_torch.max_rel_error, by_torch.expected_value,
                       by_torch.actual_value);
}

// The rule of verdicts for tensors of one dtype, shape and device.
PyObject* CountWrong(PyObject* /*self*/, PyObject* arguments) {
  PyObject* expected = nullptr;
  PyObject* actual = nullptr;
  Tolerance tolerance;
  if (PyArg_ParseTuple(arguments, "OOdd", &expected, &actual, &tolerance.atol, &tolerance.rtol) ==
      0)
    return nullptr;
  std::string error;
  const std::optional<uint64_t> wrong = CountWrongElements(expected, actual, tolerance, error);
  if (!wrong) {
    PyErr_SetString(PyExc_RuntimeError, error.c_str());
    return nullptr;
  }
  return PyLong_FromUnsignedLongLong(*wrong);
}

PyMethodDef methods[] = {
    {"use_device", UseDevice, METH_VARARGS,
     "(\"cpu\" or \"cuda\", \"\" or \"memfd\") -> a frame about what failed, or an empty text"},
    {"open_task", OpenTask, METH_VARARGS,
     "(get_inputs, make_reference, seed_all, describe_error, read_control, ask_turn, control_fd)"
     " -> frame"},
    {"begin", Begin, METH_VARARGS,
     "(atol, rtol, [(dtype, atol, rtol)], [(precision, error_max)], least precision or \"\", its "
     "error_max, first_call_ms, call_ms, candidate_fd, reference_fd) -> frame; owns the fds"},
    {"prepare", Prepare, METH_VARARGS, "(calls, bytes_max, ms_max) -> frame"},
    {"settle", SettleDevice, METH_VARARGS, "(timeout_ms, memory_floor_bytes) -> frame"},
    {"jit_call", JitCall, METH_VARARGS, "(timeout_ms, candidate_fd) -> frame; owns the fd"},
    {"compare_both", CompareBoth, METH_VARARGS, "(expected, actual, atol, rtol), for tests"},
    {"count_wrong", CountWrong, METH_VARARGS,
     "(expected, actual, atol, rtol) -> elements out of tolerance, of tensors that are alike"},
    {"first_call", FirstCall, METH_NOARGS, "() -> frame"},
    {"verify", Verify, METH_VARARGS, "(calls) -> frame"},
    {"measure", Measure, METH_VARARGS,
     "(warmup_calls, timed_calls_max, timed_ms_max, has_turns) -> frame"},
    {"end", End, METH_NOARGS, "() -> one line about what was unexpected, or an empty text"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "_pike_judge",
                      "The judge's native part.",
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace
}  // namespace pike::gpu

// Python looks for this name.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
PyMODINIT_FUNC PyInit__pike_judge() {
  return PyModule_Create(&pike::gpu::module);
}
