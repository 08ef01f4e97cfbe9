#include "gpu_worker/runner/argument_reader.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <string>

#include "gpu_worker/runner/dlpack_abi.h"
#include "gpu_worker/runner/packed_copy.h"

namespace pike::gpu {
namespace {

// One tensor over the mapped inputs, until whoever has it lets go.
struct InputTensor {
  InputMappingRef inputs;
  DlpackManagedTensor managed = {};
  int64_t shape[kDimsMax] = {};
  int64_t strides[kDimsMax] = {};
};

void DeleteInputTensor(DlpackManagedTensor* managed) {
  delete static_cast<InputTensor*>(managed->owner);
}

// A capsule that nobody took still owns its tensor.
void DestroyCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kDlpackCapsule) == 0)
    return;
  auto* managed = static_cast<DlpackManagedTensor*>(PyCapsule_GetPointer(capsule, kDlpackCapsule));
  managed->deleter(managed);
}

PyObject* NewInputCapsule(const TensorSpec& spec, InputMapping& inputs) {
  auto tensor = std::make_unique<InputTensor>();
  inputs.Retain();
  tensor->inputs.reset(&inputs);
  std::copy_n(spec.dims, kDimsMax, tensor->shape);
  std::copy_n(spec.strides, kDimsMax, tensor->strides);
  tensor->managed.tensor = {.bytes = inputs.bytes() + spec.offset,
                            .device = {kDlpackCpu, 0},
                            .dim_count = spec.dim_count,
                            .element = {spec.type_code, spec.bits, 1},
                            .shape = tensor->shape,
                            .strides = tensor->strides,
                            .byte_offset = 0};
  tensor->managed.owner = tensor.get();
  tensor->managed.deleter = DeleteInputTensor;
  PyObject* const capsule = PyCapsule_New(&tensor->managed, kDlpackCapsule, DestroyCapsule);
  if (capsule != nullptr)
    (void)tensor.release();
  return capsule;
}

// A view of bytes in the input buffer. It does not keep the buffer.
struct BytesView {
  DlpackManagedTensor managed = {};
  int64_t shape[1] = {};
};

void DeleteBytesView(DlpackManagedTensor* managed) {
  delete static_cast<BytesView*>(managed->owner);
}

PyObject* NewBytesCapsule(const ExchangeMapping& buffer, uint64_t offset, std::size_t bytes) {
  auto view = std::make_unique<BytesView>();
  const bool is_host = buffer.bytes() != nullptr;
  view->shape[0] = static_cast<int64_t>(bytes);
  view->managed.tensor = {.bytes = is_host ? buffer.bytes() + offset
                                           : reinterpret_cast<void*>(buffer.address() + offset),
                          .device = {is_host ? kDlpackCpu : kDlpackCuda, 0},
                          .dim_count = 1,
                          .element = {1, 8, 1},
                          .shape = view->shape,
                          .strides = nullptr,
                          .byte_offset = 0};
  view->managed.owner = view.get();
  view->managed.deleter = DeleteBytesView;
  PyObject* const capsule = PyCapsule_New(&view->managed, kDlpackCapsule, DestroyCapsule);
  if (capsule != nullptr)
    (void)view.release();
  return capsule;
}

PyObject* NewTuple(const int64_t* numbers, std::size_t count) {
  PythonRef tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; tuple && i < count; ++i) {
    PyObject* const number = PyLong_FromLongLong(numbers[i]);
    if (number == nullptr || PyTuple_SetItem(tuple.get(), static_cast<Py_ssize_t>(i), number) != 0)
      return nullptr;
  }
  return tuple.release();
}

}  // namespace

bool CallArguments::Read(const CallRecord& call) {
  call_ = &call;
  rest_ = std::string_view(call.text, call.text_bytes);
  tuple_.reset(ReadValue());
  call_ = nullptr;
  return tuple_ != nullptr;
}

bool CallArguments::IsUnchanged() const {
  return (!inputs_ || inputs_->IsUnchanged(fd_)) &&
         std::all_of(device_bytes_.begin(), device_bytes_.end(),
                     [this](const DeviceBytes& bytes) { return IsSameInBuffer(bytes); });
}

bool CallArguments::IsSameInBuffer(const DeviceBytes& bytes) const {
  if (bytes.size == 0)
    return true;
  const PythonRef capsule(NewBytesCapsule(*buffer_, bytes.buffer_offset, bytes.size));
  const PythonRef other(
      capsule ? PyObject_CallFunctionObjArgs(hooks_.from_dlpack.get(), capsule.get(), nullptr)
              : nullptr);
  const PythonRef answer(other ? PyObject_CallFunctionObjArgs(
                                     hooks_.is_equal.get(), bytes.flat.get(), other.get(), nullptr)
                               : nullptr);
  PyErr_Clear();
  return answer.get() == Py_True;
}

std::string_view CallArguments::TakeUntil(char end) {
  const std::size_t length = std::min(rest_.find(end), rest_.size());
  const std::string_view taken = rest_.substr(0, length);
  rest_.remove_prefix(std::min(length + 1, rest_.size()));
  return taken;
}

PyObject* CallArguments::ReadValue() {
  if (rest_.empty()) {
    PyErr_SetString(PyExc_RuntimeError, "malformed call record");
    return nullptr;
  }
  const char tag = rest_.front();
  rest_.remove_prefix(1);
  switch (tag) {
    case 'T':
      return ReadTensor();
    case 'N':
      Py_INCREF(Py_None);
      return Py_None;
    case 'B': {
      const bool is_true = !rest_.empty() && rest_.front() == '1';
      rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
      return PyBool_FromLong(is_true ? 1 : 0);
    }
    case 'I':
      return PyLong_FromLongLong(strtoll(std::string(TakeUntil(';')).c_str(), nullptr, 10));
    case 'F': {
      const std::string digits(rest_.substr(0, 16));
      rest_.remove_prefix(digits.size());
      const uint64_t bits = strtoull(digits.c_str(), nullptr, 16);
      double number = 0;
      memcpy(&number, &bits, sizeof(number));
      return PyFloat_FromDouble(number);
    }
    case 'S': {
      const std::size_t length = std::min<std::size_t>(
          strtoull(std::string(TakeUntil(':')).c_str(), nullptr, 10), rest_.size());
      const std::string_view text = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(length), "replace");
    }
    case '(':
      return ReadSequence(')');
    case '[':
      return ReadSequence(']');
    case '{':
      return ReadDict();
    default:
      PyErr_SetString(PyExc_RuntimeError, "malformed call record");
      return nullptr;
  }
}

PyObject* CallArguments::ReadTensor() {
  if (tensors_read_ >= call_->tensor_count || tensors_read_ >= kTensorsMax) {
    PyErr_SetString(PyExc_RuntimeError, "malformed call record");
    return nullptr;
  }
  const TensorSpec& spec = call_->tensors[tensors_read_++];
  PythonRef tensor(gpu_ == nullptr ? ReadHostTensor(spec) : ReadDeviceTensor(spec));
  if (!tensor || spec.requires_grad == 0)
    return tensor.release();
  return PyObject_CallFunctionObjArgs(hooks_.require_grad.get(), tensor.get(), nullptr);
}

PyObject* CallArguments::ReadHostTensor(const TensorSpec& spec) {
  const PythonRef capsule(NewInputCapsule(spec, *inputs_));
  if (!capsule)
    return nullptr;
  return PyObject_CallFunctionObjArgs(hooks_.from_dlpack.get(), capsule.get(), nullptr);
}

// On a GPU memory comes from torch's allocator, as it does for whoever calls the module in earnest.
PyObject* CallArguments::ReadDeviceTensor(const TensorSpec& spec) {
  const PythonRef dims(NewTuple(spec.dims, spec.dim_count));
  const PythonRef strides(NewTuple(spec.strides, spec.dim_count));
  if (!dims || !strides)
    return nullptr;
  const PythonRef parts(PyObject_CallFunction(hooks_.allocate.get(), "iiOO", int{spec.type_code},
                                              int{spec.bits}, dims.get(), strides.get()));
  if (!parts)
    return nullptr;
  PyObject* tensor = nullptr;
  PyObject* flat = nullptr;
  unsigned long long address = 0;
  if (PyArg_ParseTuple(parts.get(), "OOK", &tensor, &flat, &address) == 0)
    return nullptr;
  const StridedLayout layout = {spec.dim_count, spec.dims, nullptr, spec.bits / 8u};
  const std::size_t bytes = FindPackedBytes(layout).value_or(0);
  const CuResult result = buffer_->CopyTo(address, spec.offset, bytes);
  if (result != kCuSuccess) {
    PyErr_SetString(PyExc_RuntimeError, gpu_->Explain(result).c_str());
    return nullptr;
  }
  Py_INCREF(flat);
  device_bytes_.push_back({PythonRef(flat), spec.offset, bytes});
  Py_INCREF(tensor);
  return tensor;
}

PyObject* CallArguments::ReadSequence(char end) {
  PythonRef list(PyList_New(0));
  while (list && !rest_.empty() && rest_.front() != end) {
    const PythonRef item(ReadValue());
    if (!item || PyList_Append(list.get(), item.get()) != 0)
      return nullptr;
  }
  rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
  if (!list || end == ']')
    return list.release();
  return PyList_AsTuple(list.get());
}

PyObject* CallArguments::ReadDict() {
  PythonRef dict(PyDict_New());
  while (dict && !rest_.empty() && rest_.front() != '}') {
    const PythonRef key(ReadValue());
    if (!key)
      return nullptr;
    const PythonRef item(ReadValue());
    if (!item || PyDict_SetItem(dict.get(), key.get(), item.get()) != 0)
      return nullptr;
  }
  rest_.remove_prefix(std::min<std::size_t>(1, rest_.size()));
  return dict.release();
}

}  // namespace pike::gpu
