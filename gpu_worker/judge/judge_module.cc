// The Python module _pike_judge: what judge_main.py calls. One judge serves one task, so the module
// holds one session. Every function returns the text of a frame of PROTOCOL.md.

#include <Python.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "gpu_worker/judge/evaluation.h"
#include "gpu_worker/judge/python_task.h"
#include "gpu_worker/judge/result_json.h"

namespace pike::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Session {
  PythonRef describe_error;
  PythonRef read_control;
  Control control;
  std::unique_ptr<TaskSource> task;
  std::size_t output_bytes = 0;
  std::unique_ptr<Evaluation> evaluation;
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

// Two calls of a fresh reference: the first to learn the sizes, the second for its duration.
std::optional<TaskFailure> TryTask(TaskSource& task, TaskSummary& summary) {
  std::optional<TaskFailure> failure = task.ResetReference();
  for (int i = 0; i < 2 && !failure; ++i) {
    failure = task.MakeInput(SecretNumber() >> 1, summary.input);
    if (failure)
      break;
    const Clock::time_point start = Clock::now();
    failure = task.RunReference(SecretNumber() >> 1, summary.output);
    summary.reference_ms = MsSince(start);
  }
  return failure;
}

PyObject* OpenTask(PyObject* /*self*/, PyObject* arguments) {
  PyObject* get_inputs = nullptr;
  PyObject* make_reference = nullptr;
  PyObject* seed_all = nullptr;
  PyObject* describe_error = nullptr;
  PyObject* read_control = nullptr;
  int control_fd = -1;
  if (PyArg_ParseTuple(arguments, "OOOOOi", &get_inputs, &make_reference, &seed_all,
                       &describe_error, &read_control, &control_fd) == 0)
    return nullptr;
  Session& session = TheSession();
  session.describe_error = NewRef(describe_error);
  session.read_control = NewRef(read_control);
  session.control = {control_fd, [read_control] { return ReadControl(read_control); }};
  session.evaluation.reset();
  session.task = MakePythonTask({.get_inputs = NewRef(get_inputs),
                                 .make_reference = NewRef(make_reference),
                                 .seed_all = NewRef(seed_all),
                                 .describe_error = NewRef(describe_error)});
  TaskSummary summary;
  const std::optional<TaskFailure> failure = TryTask(*session.task, summary);
  if (failure) {
    session.task.reset();
    return ToPython(TaskFailureToJson(*failure));
  }
  session.output_bytes = BufferBytes(summary.output);
  return ToPython(TaskSummaryToJson(summary));
}

PyObject* Begin(PyObject* /*self*/, PyObject* arguments) {
  EvaluationPolicy policy;
  long long first_call_ms = 0;
  long long call_ms = 0;
  int candidate_fd = -1;
  int reference_fd = -1;
  if (PyArg_ParseTuple(arguments, "ddLLii", &policy.tolerance.atol, &policy.tolerance.rtol,
                       &first_call_ms, &call_ms, &candidate_fd, &reference_fd) == 0)
    return nullptr;
  UniqueFd candidate(candidate_fd);
  UniqueFd reference(reference_fd);
  policy.first_call_timeout = milliseconds(first_call_ms);
  policy.call_timeout = milliseconds(call_ms);
  Session& session = TheSession();
  session.evaluation.reset();
  if (!session.task) {
    PyErr_SetString(PyExc_RuntimeError, "no task is open");
    return nullptr;
  }
  const std::optional<TaskFailure> failure = session.task->ResetReference();
  if (failure)
    return ToPython(TaskFailureToJson(*failure));
  session.evaluation = std::make_unique<Evaluation>(*session.task, policy, std::move(candidate),
                                                    std::move(reference), session.output_bytes);
  return ToPython(R"({"type":"begun"})");
}

template <typename Operation>
PyObject* Run(const char* op, Operation operation) {
  Session& session = TheSession();
  if (!session.evaluation) {
    PyErr_SetString(PyExc_RuntimeError, "no evaluation is open");
    return nullptr;
  }
  const Clock::time_point start = Clock::now();
  const OperationResult result = operation(*session.evaluation, session.control);
  return ToPython(ResultToJson(op, result, *session.evaluation, MsSince(start)));
}

PyObject* FirstCall(PyObject* /*self*/, PyObject* /*arguments*/) {
  return Run("first_call", [](Evaluation& evaluation, const Control& control) {
    return evaluation.FirstCall(control);
  });
}

PyObject* Verify(PyObject* /*self*/, PyObject* arguments) {
  unsigned int calls = 0;
  if (PyArg_ParseTuple(arguments, "I", &calls) == 0)
    return nullptr;
  return Run("verify", [calls](Evaluation& evaluation, const Control& control) {
    return evaluation.Verify(calls, control);
  });
}

PyObject* Measure(PyObject* /*self*/, PyObject* arguments) {
  MeasurePolicy policy;
  long long timed_ms = 0;
  if (PyArg_ParseTuple(arguments, "IIL", &policy.warmup_calls, &policy.timed_calls_max,
                       &timed_ms) == 0)
    return nullptr;
  policy.timed_max = milliseconds(timed_ms);
  return Run("measure", [&policy](Evaluation& evaluation, const Control& control) {
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

PyMethodDef methods[] = {
    {"open_task", OpenTask, METH_VARARGS,
     "(get_inputs, make_reference, seed_all, describe_error, read_control, control_fd) -> frame"},
    {"begin", Begin, METH_VARARGS,
     "(atol, rtol, first_call_ms, call_ms, candidate_fd, reference_fd) -> frame; owns the fds"},
    {"first_call", FirstCall, METH_NOARGS, "() -> frame"},
    {"verify", Verify, METH_VARARGS, "(calls) -> frame"},
    {"measure", Measure, METH_VARARGS, "(warmup_calls, timed_calls_max, timed_ms_max) -> frame"},
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
