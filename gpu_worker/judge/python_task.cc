#include "gpu_worker/judge/python_task.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/python_variable.h>

#include "gpu_worker/judge/element_type.h"

namespace pike::gpu {
namespace {

constexpr int kDepthMax = 16;

struct DlpackType {
  uint8_t type_code;
  uint8_t bits;
};

std::optional<DlpackType> FindDlpackType(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return DlpackType{6, 8};
    case at::kChar:
      return DlpackType{0, 8};
    case at::kShort:
      return DlpackType{0, 16};
    case at::kInt:
      return DlpackType{0, 32};
    case at::kLong:
      return DlpackType{0, 64};
    case at::kByte:
      return DlpackType{1, 8};
    case at::kUInt16:
      return DlpackType{1, 16};
    case at::kUInt32:
      return DlpackType{1, 32};
    case at::kUInt64:
      return DlpackType{1, 64};
    case at::kHalf:
      return DlpackType{2, 16};
    case at::kBFloat16:
      return DlpackType{4, 16};
    case at::kFloat:
      return DlpackType{2, 32};
    case at::kDouble:
      return DlpackType{2, 64};
    case at::kComplexFloat:
      return DlpackType{5, 64};
    case at::kComplexDouble:
      return DlpackType{5, 128};
    default:
      return std::nullopt;
  }
}

// Turns a Python value into a HostValue. Keeps the tensors it reads alive.
class ValueReader {
 public:
  // Inputs keep a dense layout, since a candidate may be as sensitive to it as the reference;
  // outputs are packed.
  enum class Layout { kDense, kPacked };

  explicit ValueReader(Layout layout) : layout_(layout) {}

  // False: `error` says what cannot cross.
  bool Read(PyObject* object, int depth, std::string& error) {
    if (depth > kDepthMax)
      return Refuse("it is nested too deeply", error);
    if (THPVariable_Check(object))
      return ReadTensor(THPVariable_Unpack(object), error);
    if (PyTuple_Check(object) || PyList_Check(object))
      return ReadSequence(object, depth, error);
    if (PyDict_Check(object))
      return ReadDict(object, depth, error);
    return ReadScalar(object, error);
  }

  HostValue Take() { return std::exchange(value_, {}); }
  std::vector<at::Tensor> TakeTensors() { return std::exchange(tensors_, {}); }

 private:
  static bool Refuse(std::string why, std::string& error) {
    error = std::move(why);
    return false;
  }

  bool ReadTensor(const at::Tensor& original, std::string& error) {
    if (!original.device().is_cpu())
      return Refuse("a tensor is on device " + original.device().str() + ", not on cpu", error);
    if (original.layout() != at::kStrided || original.is_quantized() || original.is_nested())
      return Refuse("a tensor is sparse, quantized or nested", error);
    const std::optional<DlpackType> type = FindDlpackType(original.scalar_type());
    if (!type)
      return Refuse(std::string("dtype ") + at::toString(original.scalar_type()) + " cannot cross",
                    error);
    if (original.dim() > static_cast<int64_t>(kDimsMax))
      return Refuse("a tensor has more than 12 dimensions", error);
    if (tensors_.size() >= kTensorsMax)
      return Refuse("there are more than 64 tensors", error);
    at::Tensor tensor = original.variable_data().resolve_conj().resolve_neg();
    if (layout_ == Layout::kPacked || !tensor.is_non_overlapping_and_dense())
      tensor = tensor.contiguous();
    HostTensor host;
    host.spec.type_code = type->type_code;
    host.spec.bits = type->bits;
    host.spec.dim_count = static_cast<uint8_t>(tensor.dim());
    host.spec.requires_grad = original.requires_grad() ? 1 : 0;
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      host.spec.dims[i] = tensor.size(i);
      host.spec.strides[i] = tensor.stride(i);
    }
    host.bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
    value_.tensors.push_back(host);
    tensors_.push_back(std::move(tensor));
    value_.text += 'T';
    return true;
  }

  bool ReadSequence(PyObject* object, int depth, std::string& error) {
    const bool is_tuple = PyTuple_Check(object);
    value_.text += is_tuple ? '(' : '[';
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
      if (!Read(PySequence_Fast_GET_ITEM(object, i), depth + 1, error))
        return false;
    }
    value_.text += is_tuple ? ')' : ']';
    return true;
  }

  bool ReadDict(PyObject* object, int depth, std::string& error) {
    value_.text += '{';
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    while (PyDict_Next(object, &position, &key, &item) != 0) {
      if (!PyUnicode_Check(key) && (!PyLong_Check(key) || PyBool_Check(key)))
        return Refuse("a dict has a key that is neither str nor int", error);
      if (!ReadScalar(key, error) || !Read(item, depth + 1, error))
        return false;
    }
    value_.text += '}';
    return true;
  }

  bool ReadScalar(PyObject* object, std::string& error) {
    if (object == Py_None) {
      value_.text += 'N';
    } else if (PyBool_Check(object)) {
      value_.text += object == Py_True ? "B1" : "B0";
    } else if (PyLong_Check(object)) {
      int overflow = 0;
      const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
      if (overflow != 0)
        return Refuse("an int does not fit into 64 bits", error);
      value_.text += "I" + std::to_string(number) + ";";
    } else if (PyFloat_Check(object)) {
      const double number = PyFloat_AS_DOUBLE(object);
      uint64_t bits = 0;
      memcpy(&bits, &number, sizeof(bits));
      char digits[20];
      std::snprintf(digits, sizeof(digits), "F%016llx", static_cast<unsigned long long>(bits));
      value_.text += digits;
    } else if (PyUnicode_Check(object)) {
      Py_ssize_t bytes = 0;
      const char* text = PyUnicode_AsUTF8AndSize(object, &bytes);
      if (text == nullptr) {
        PyErr_Clear();
        return Refuse("a str is not valid Unicode", error);
      }
      value_.text += "S" + std::to_string(bytes) + ":";
      value_.text.append(text, static_cast<std::size_t>(bytes));
    } else {
      return Refuse(
          std::string("a value of type ") + Py_TYPE(object)->tp_name +
              " cannot cross (only tensors, int, float, bool, str, None in tuple, list, dict)",
          error);
    }
    if (value_.text.size() > kTextBytesMax - 64)
      return Refuse("there are too many values", error);
    return true;
  }

  const Layout layout_;
  HostValue value_;
  std::vector<at::Tensor> tensors_;
};

// Makes the arguments for the reference as a runner makes them from a call record: plain
// containers, plain tensors, and no tensor that shares its memory with another.
class ArgumentBuilder {
 public:
  // `tensors` in the order in which ValueReader met them; a shared one is replaced by a copy.
  explicit ArgumentBuilder(std::vector<at::Tensor>& tensors, const HostValue& value)
      : tensors_(tensors), value_(value) {}

  // Null with a Python exception set.
  PyObject* Build(PyObject* object) {
    if (THPVariable_Check(object))
      return BuildTensor();
    if (PyTuple_Check(object) || PyList_Check(object))
      return BuildSequence(object);
    if (PyDict_Check(object))
      return BuildDict(object);
    Py_INCREF(object);
    return object;
  }

 private:
  PyObject* BuildTensor() {
    at::Tensor& tensor = tensors_[next_];
    const auto first = tensors_.begin();
    const auto shared =
        std::find_if(first, first + static_cast<std::ptrdiff_t>(next_),
                     [&](const at::Tensor& other) { return tensor.is_alias_of(other); });
    if (shared != first + static_cast<std::ptrdiff_t>(next_))
      tensor = tensor.clone();
    const bool needs_grad = value_.tensors[next_].spec.requires_grad != 0;
    ++next_;
    return THPVariable_Wrap(needs_grad ? tensor.variable_data().set_requires_grad(true) : tensor);
  }

  PyObject* BuildSequence(PyObject* object) {
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    const bool is_tuple = PyTuple_Check(object);
    PythonRef copy(is_tuple ? PyTuple_New(count) : PyList_New(count));
    for (Py_ssize_t i = 0; copy && i < count; ++i) {
      PyObject* const item = Build(PySequence_Fast_GET_ITEM(object, i));
      if (item == nullptr)
        return nullptr;
      if (is_tuple)
        PyTuple_SET_ITEM(copy.get(), i, item);
      else
        PyList_SET_ITEM(copy.get(), i, item);
    }
    return copy.release();
  }

  PyObject* BuildDict(PyObject* object) {
    PythonRef copy(PyDict_New());
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    PyObject* item = nullptr;
    while (copy && PyDict_Next(object, &position, &key, &item) != 0) {
      const PythonRef built(Build(item));
      if (!built || PyDict_SetItem(copy.get(), key, built.get()) != 0)
        return nullptr;
    }
    return copy.release();
  }

  std::vector<at::Tensor>& tensors_;
  const HostValue& value_;
  std::size_t next_ = 0;
};

class PythonTask : public TaskSource {
 public:
  explicit PythonTask(TaskCallables callables) : callables_(std::move(callables)) {}

  std::optional<TaskFailure> ResetReference() override {
    reference_.reset();
    reference_.reset(PyObject_CallNoArgs(callables_.make_reference.get()));
    if (!reference_)
      return TakePythonError(callables_.describe_error.get(), "constructor");
    return std::nullopt;
  }

  std::optional<TaskFailure> MakeInput(uint64_t seed, HostValue& input) override {
    output_tensors_.clear();
    input_tensors_.clear();
    output_.reset();
    arguments_.reset();
    if (!SeedAll(seed))
      return TakePythonError(callables_.describe_error.get(), "inputs");
    const PythonRef made(PyObject_CallNoArgs(callables_.get_inputs.get()));
    if (!made)
      return TakePythonError(callables_.describe_error.get(), "inputs");
    if (!PyTuple_Check(made.get()) && !PyList_Check(made.get()))
      return Refusal("inputs", "get_inputs must return a list or a tuple");
    const PythonRef made_tuple(PySequence_Tuple(made.get()));
    if (!made_tuple)
      return TakePythonError(callables_.describe_error.get(), "inputs");
    std::optional<TaskFailure> failure =
        ReadValue(made_tuple.get(), ValueReader::Layout::kDense, "inputs", input);
    if (failure)
      return failure;
    arguments_.reset(ArgumentBuilder(input_tensors_, input).Build(made_tuple.get()));
    if (!arguments_)
      return TakePythonError(callables_.describe_error.get(), "inputs");
    return std::nullopt;
  }

  std::optional<TaskFailure> RunReference(uint64_t rng_seed, HostValue& output) override {
    const at::NoGradGuard no_grad;
    if (!SeedAll(rng_seed))
      return TakePythonError(callables_.describe_error.get(), "reference");
    output_.reset(PyObject_CallObject(reference_.get(), arguments_.get()));
    if (!output_)
      return TakePythonError(callables_.describe_error.get(), "reference");
    return ReadValue(output_.get(), ValueReader::Layout::kPacked, "outputs", output);
  }

 private:
  static TaskFailure Refusal(const char* where, std::string text) {
    return {.where = where, .kind = "exception", .error_type = "", .text = std::move(text)};
  }

  bool SeedAll(uint64_t seed) {
    const PythonRef number(PyLong_FromUnsignedLongLong(seed));
    const PythonRef done(PyObject_CallOneArg(callables_.seed_all.get(), number.get()));
    return done != nullptr;
  }

  std::optional<TaskFailure> ReadValue(PyObject* object, ValueReader::Layout layout,
                                       const char* where, HostValue& value) {
    ValueReader reader(layout);
    std::string error;
    bool is_read = false;
    try {
      is_read = reader.Read(object, /*depth=*/0, error);
    } catch (const std::exception& exception) {  // c10::Error, for instance for want of memory
      error = exception.what();
    }
    if (!is_read)
      return Refusal(where, std::move(error));
    std::vector<at::Tensor>& tensors =
        layout == ValueReader::Layout::kDense ? input_tensors_ : output_tensors_;
    tensors = reader.TakeTensors();
    value = reader.Take();
    return std::nullopt;
  }

  TaskCallables callables_;
  PythonRef reference_;
  PythonRef arguments_;
  PythonRef output_;
  std::vector<at::Tensor> input_tensors_;
  std::vector<at::Tensor> output_tensors_;
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

std::unique_ptr<TaskSource> MakePythonTask(TaskCallables callables) {
  return std::make_unique<PythonTask>(std::move(callables));
}

}  // namespace pike::gpu
