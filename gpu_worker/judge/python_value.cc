#include "gpu_worker/judge/python_value.h"

#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include <torch/csrc/autograd/python_variable.h>

#include "common/base/check.h"
#include "gpu_worker/judge/element_type.h"
#include "gpu_worker/judge/torch_compare.h"

namespace pike::gpu {
namespace {

constexpr int kDepthMax = 16;

// Turns a Python value into a TaskValue. Keeps the tensors it reads alive.
class ValueReader {
 public:
  ValueReader(const BenchDevice& device, ValueLayout layout) : device_(device), layout_(layout) {}

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

  HeldValue Take() { return {std::exchange(value_, {}), std::exchange(tensors_, {})}; }

 private:
  static bool Refuse(std::string why, std::string& error) {
    error = std::move(why);
    return false;
  }

  bool ReadTensor(const at::Tensor& original, std::string& error) {
    const bool has_gpu = device_.tensor_type() == kCudaTensor;
    if (!original.device().is_cpu() && !(has_gpu && original.device().is_cuda())) {
      return Refuse("a tensor is on device " + original.device().str() +
                        (has_gpu ? ", neither on cuda:0 nor on cpu" : ", not on cpu"),
                    error);
    }
    if (original.layout() != at::kStrided || original.is_quantized() || original.is_nested())
      return Refuse("a tensor is sparse, quantized or nested", error);
    TaskTensor described;
    if (!SetElementType(original.scalar_type(), described.spec)) {
      return Refuse(std::string("dtype ") + at::toString(original.scalar_type()) + " cannot cross",
                    error);
    }
    if (original.dim() > static_cast<int64_t>(kDimsMax))
      return Refuse("a tensor has more than 12 dimensions", error);
    if (tensors_.size() >= kTensorsMax)
      return Refuse("there are more than 64 tensors", error);
    at::Tensor tensor = original.variable_data().resolve_conj().resolve_neg();
    if (layout_ == ValueLayout::kPacked || !tensor.is_non_overlapping_and_dense())
      tensor = tensor.contiguous();
    if (has_gpu)
      tensor = tensor.to(at::Device(at::kCUDA, 0));
    described.spec.dim_count = static_cast<uint8_t>(tensor.dim());
    described.spec.requires_grad = original.requires_grad() ? 1 : 0;
    // Inputs are handed over on the device of the bench, outputs compared where they were returned.
    const bool is_on_gpu =
        has_gpu && (layout_ == ValueLayout::kDense || original.device().is_cuda());
    described.spec.device_type = is_on_gpu ? kCudaTensor : kHostTensor;
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      described.spec.dims[i] = tensor.size(i);
      described.spec.strides[i] = tensor.stride(i);
    }
    described.bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
    value_.tensors.push_back(described);
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

  const BenchDevice& device_;
  const ValueLayout layout_;
  TaskValue value_;
  std::vector<at::Tensor> tensors_;
};

class ArgumentBuilder {
 public:
  explicit ArgumentBuilder(HeldValue& held) : tensors_(held.tensors), value_(held.value) {}

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
  const TaskValue& value_;
  std::size_t next_ = 0;
};

}  // namespace

bool ReadPythonValue(PyObject* object, const BenchDevice& device, ValueLayout layout,
                     HeldValue& held, std::string& error) {
  ValueReader reader(device, layout);
  const bool is_read = reader.Read(object, /*depth=*/0, error);
  if (is_read)
    held = reader.Take();
  return is_read;
}

PyObject* BuildArguments(PyObject* object, HeldValue& held) {
  return ArgumentBuilder(held).Build(object);
}

std::optional<uint64_t> CountWrongElements(PyObject* expected, PyObject* actual,
                                           const Tolerance& tolerance, std::string& error) {
  if (!THPVariable_Check(expected) || !THPVariable_Check(actual)) {
    error = "not a tensor";
    return std::nullopt;
  }
  try {
    return CompareTensors(THPVariable_Unpack(expected), THPVariable_Unpack(actual), tolerance)
        .mismatched;
  } catch (const std::exception& exception) {  // c10::Error, for instance for want of memory
    error = exception.what();
    return std::nullopt;
  }
}

std::pair<TensorError, TensorError> CompareBothWays(PyObject* expected, PyObject* actual,
                                                    const Tolerance& tolerance) {
  const at::Tensor& want = THPVariable_Unpack(expected);
  const at::Tensor& got = THPVariable_Unpack(actual);
  const at::Tensor host_want = want.cpu().contiguous();
  const at::Tensor host_got = got.cpu().contiguous();
  TensorSpec spec = {};
  PIKE_CHECK(SetElementType(want.scalar_type(), spec));
  const std::optional<ElementType> type = FindElementType(spec.type_code, spec.bits);
  PIKE_CHECK(type.has_value());
  return {CompareElements(*type, host_want.const_data_ptr(), host_got.const_data_ptr(),
                          static_cast<uint64_t>(want.numel()), tolerance),
          CompareTensors(want, got, tolerance)};
}

}  // namespace pike::gpu
