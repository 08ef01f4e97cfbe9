#include "gpu_worker/judge/python_task.h"

#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "gpu_worker/judge/python_value.h"
#include "gpu_worker/judge/torch_compare.h"

namespace pike::gpu {
namespace {

// One input, ready for use.
struct MadeInput {
  HeldValue held;
  PythonRef arguments;

  std::size_t bytes() const {
    return BufferBytes(held.value) + (held.value.file ? held.value.file->size : 0);
  }
};

class PythonTask : public TaskSource {
 public:
  PythonTask(TaskCallables callables, BenchDevice& device)
      : callables_(std::move(callables)), device_(device) {}

  std::optional<TaskFailure> ResetReference() override {
    reference_.reset();
    reference_.reset(PyObject_CallNoArgs(callables_.make_reference.get()));
    if (!reference_)
      return TakeError("constructor");
    return std::nullopt;
  }

  void ForgetReference() override {
    output_held_ = {};
    output_.reset();
    input_ = {};
    reference_.reset();
  }

  std::optional<TaskFailure> Stock(const StockLimits& limits,
                                   const std::function<bool()>& is_aborted) override {
    const auto end = std::chrono::steady_clock::now() + limits.time_max;
    while (stock_.size() > limits.inputs || (!stock_.empty() && stock_bytes_ > limits.bytes_max))
      TakeFromStock();
    while (stock_.size() < limits.inputs && std::chrono::steady_clock::now() < end &&
           !is_aborted()) {
      const std::size_t expected_bytes = stock_.empty() ? 0 : stock_.back().bytes();
      if (stock_bytes_ + expected_bytes > limits.bytes_max)
        break;
      MadeInput made;
      std::optional<TaskFailure> failure = MakeInput(made);
      if (failure && failure->kind == "memory")
        break;
      if (failure)
        return failure;
      if (stock_bytes_ + made.bytes() > limits.bytes_max)
        break;
      stock_bytes_ += made.bytes();
      stock_.push_back(std::move(made));
    }
    return device_.Finish();
  }
  std::size_t stock() const override { return stock_.size(); }
  std::size_t stock_bytes() const override { return stock_bytes_; }

  std::optional<TaskFailure> NextInput(TaskValue& input) override {
    output_held_ = {};
    output_.reset();
    input_ = {};
    if (!stock_.empty()) {
      input_ = TakeFromStock();
    } else {
      std::optional<TaskFailure> failure = MakeInput(input_);
      if (failure)
        return failure;
    }
    input = input_.held.value;
    return std::nullopt;
  }

  std::optional<TaskFailure> RunReference(uint64_t rng_seed, TaskValue& output) override {
    const at::NoGradGuard no_grad;
    if (!SeedAll(rng_seed))
      return TakeError("reference");
    output_.reset(PyObject_CallObject(reference_.get(), input_.arguments.get()));
    if (!output_)
      return TakeError("reference");
    std::optional<TaskFailure> failure =
        ReadValue(output_.get(), ValueLayout::kPacked, "outputs", output_held_);
    output = output_held_.value;
    if (failure)
      return failure;
    failure = device_.Finish();
    if (failure)
      failure->where = "reference";  // whose work it was
    return failure;
  }

 private:
  static TaskFailure Refusal(const char* where, std::string text) {
    return {.where = where, .kind = "exception", .error_type = "", .text = std::move(text)};
  }

  MadeInput TakeFromStock() {
    MadeInput taken = std::move(stock_.front());
    stock_.pop_front();
    stock_bytes_ -= taken.bytes();
    return taken;
  }

  // The pending exception. An error that stays in the device is the device's.
  TaskFailure TakeError(const char* where) {
    return Diagnose(TakePythonError(callables_.describe_error.get(), where));
  }

  TaskFailure Diagnose(TaskFailure failure) {
    const std::optional<TaskFailure> fault = device_.Finish();
    if (fault && fault->kind == "device")
      failure.kind = fault->kind;
    return failure;
  }

  bool SeedAll(uint64_t seed) {
    const PythonRef number(PyLong_FromUnsignedLongLong(seed));
    const PythonRef done(PyObject_CallOneArg(callables_.seed_all.get(), number.get()));
    return done != nullptr;
  }

  // Under a new secret seed.
  std::optional<TaskFailure> MakeInput(MadeInput& input) {
    if (!SeedAll(SecretNumber() >> 1))  // torch.manual_seed takes 63 bits
      return TakeError("inputs");
    const PythonRef made(PyObject_CallNoArgs(callables_.get_inputs.get()));
    if (!made)
      return TakeError("inputs");
    if (!PyTuple_Check(made.get()) && !PyList_Check(made.get()))
      return Refusal("inputs", "get_inputs must return a list or a tuple");
    const PythonRef made_tuple(PySequence_Tuple(made.get()));
    if (!made_tuple)
      return TakeError("inputs");
    std::optional<TaskFailure> failure =
        ReadValue(made_tuple.get(), ValueLayout::kDense, "inputs", input.held);
    if (failure)
      return failure;
    try {
      input.arguments.reset(BuildArguments(made_tuple.get(), input.held));
    } catch (const std::exception& exception) {  // c10::Error, as in ReadValue
      return Diagnose(ExplainTorchError(exception, "inputs"));
    }
    if (!input.arguments)
      return TakeError("inputs");
    return device_.Share(input.held.value);
  }

  std::optional<TaskFailure> ReadValue(PyObject* object, ValueLayout layout, const char* where,
                                       HeldValue& held) {
    std::string error;
    try {
      if (!ReadPythonValue(object, device_, layout, held, error))
        return Refusal(where, std::move(error));
    } catch (const std::exception& exception) {  // c10::Error, for instance for want of memory
      return Diagnose(ExplainTorchError(exception, where));
    }
    return std::nullopt;
  }

  TaskCallables callables_;
  BenchDevice& device_;
  PythonRef reference_;
  PythonRef output_;
  MadeInput input_;  // the last one handed out
  HeldValue output_held_;
  std::deque<MadeInput> stock_;
  std::size_t stock_bytes_ = 0;
};

std::string TakeText(PyObject* object) {
  Py_ssize_t bytes = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &bytes);
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return std::string(text, static_cast<std::size_t>(bytes));
}

}  // namespace

TaskFailure TakePythonError(PyObject* describe_error, const char* where) {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr)
    PyException_SetTraceback(value, traceback);
  const PythonRef type_ref(type);
  const PythonRef value_ref(value);
  const PythonRef traceback_ref(traceback);
  TaskFailure failure = {.where = where, .kind = "exception", .error_type = "?", .text = ""};
  const PythonRef parts(value == nullptr ? nullptr : PyObject_CallOneArg(describe_error, value));
  if (!parts || !PyTuple_Check(parts.get()) || PyTuple_GET_SIZE(parts.get()) != 3) {
    PyErr_Clear();
    return failure;
  }
  failure.error_type = TakeText(PyTuple_GET_ITEM(parts.get(), 0));
  failure.text = TakeText(PyTuple_GET_ITEM(parts.get(), 1));
  failure.kind = TakeText(PyTuple_GET_ITEM(parts.get(), 2));
  return failure;
}

std::unique_ptr<TaskSource> MakePythonTask(TaskCallables callables, BenchDevice& device) {
  return std::make_unique<PythonTask>(std::move(callables), device);
}

}  // namespace pike::gpu
