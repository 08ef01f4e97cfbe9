#include "gpu_worker/runner/output_writer.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "gpu_worker/runner/dlpack_abi.h"
#include "gpu_worker/runner/packed_copy.h"

namespace pike::gpu {
namespace {

constexpr int kDepthMax = 16;
constexpr std::size_t kClosingBytesMax = 64;  // for the brackets that are still open

std::string TypeName(PyObject* object) {
  const PythonRef name(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__name__"));
  const char* text = name ? PyUnicode_AsUTF8AndSize(name.get(), nullptr) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return text;
}

// What a tensor takes in the buffer, or why it cannot be there.
struct TensorCopy {
  std::size_t bytes = 0;
  CallStatus status = CallStatus::kOk;
  std::string failure;
};

// Copies one tensor to `used` in the buffer and describes it.
TensorCopy CopyTensor(const DlpackTensor& tensor, const OutputBuffer& buffer, std::size_t used,
                      TensorSpec& spec) {
  if (tensor.device.type != kDlpackCpu)
    return {0, CallStatus::kUnsupported, "a tensor on another device than cpu"};
  if (tensor.dim_count < 0 || tensor.dim_count > static_cast<int32_t>(kDimsMax))
    return {0, CallStatus::kUnsupported, "a tensor of more than 12 dimensions"};
  if (tensor.element.lanes != 1 || tensor.element.bits % 8 != 0)
    return {0, CallStatus::kUnsupported, "a tensor of a packed dtype"};
  const StridedLayout layout = {static_cast<std::size_t>(tensor.dim_count), tensor.shape,
                                tensor.strides, tensor.element.bits / 8u};
  const std::optional<std::size_t> bytes = FindPackedBytes(layout);
  if (!bytes || used > buffer.size || *bytes > buffer.size - used) {
    return {0, CallStatus::kTooLarge,
            "outputs larger than twice the reference's, of " + std::to_string(buffer.size) +
                " bytes at most"};
  }
  spec.type_code = tensor.element.code;
  spec.bits = tensor.element.bits;
  spec.dim_count = static_cast<uint8_t>(tensor.dim_count);
  spec.offset = used;
  std::copy_n(tensor.shape, tensor.dim_count, spec.dims);
  CopyPacked(buffer.bytes + used, static_cast<const uint8_t*>(tensor.bytes) + tensor.byte_offset,
             layout);
  return {.bytes = *bytes, .status = CallStatus::kOk, .failure = ""};
}

}  // namespace

void CallOutputs::Collect(PyObject* outputs) {
  CollectValue(outputs, "out", /*depth=*/0);
}

void CallOutputs::Write(const OutputBuffer& buffer, CallRecord& reply) {
  std::size_t used = 0;
  for (const Export& item : exports_) {
    if (status_ != CallStatus::kOk)
      break;
    const auto* const managed = static_cast<const DlpackManagedTensor*>(
        PyCapsule_GetPointer(item.capsule.get(), kDlpackCapsule));
    const TensorCopy copy =
        CopyTensor(managed->tensor, buffer, used, reply.tensors[reply.tensor_count++]);
    if (copy.status != CallStatus::kOk)
      Fail(copy.status, item.path, copy.failure);
    used += (copy.bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  exports_.clear();
  reply.status = status_;
  SetText(status_ == CallStatus::kOk ? text_ : failure_, reply);
}

bool CallOutputs::Fail(CallStatus status, const std::string& path, const std::string& why) {
  PyErr_Clear();
  status_ = status;
  failure_ = path + ": " + why;
  return false;
}

bool CallOutputs::CollectValue(PyObject* object, const std::string& path, int depth) {
  if (depth > kDepthMax)
    return Fail(CallStatus::kUnsupported, path, "nested too deeply");
  auto* const tensor_type = reinterpret_cast<PyTypeObject*>(hooks_.tensor_type.get());
  if (PyType_IsSubtype(Py_TYPE(object), tensor_type) != 0)
    return CollectTensor(object, path);
  if (PyTuple_Check(object) || PyList_Check(object))
    return CollectSequence(object, path, depth);
  if (PyDict_Check(object))
    return CollectDict(object, path, depth);
  return CollectScalar(object, path);
}

bool CallOutputs::CollectTensor(PyObject* object, const std::string& path) {
  if (exports_.size() >= kTensorsMax)
    return Fail(CallStatus::kUnsupported, path, "more than 64 tensors");
  const PythonRef resolved(PyObject_CallFunctionObjArgs(hooks_.resolve.get(), object, nullptr));
  PythonRef capsule(
      resolved ? PyObject_CallFunctionObjArgs(hooks_.to_dlpack.get(), resolved.get(), nullptr)
               : nullptr);
  if (!capsule || PyCapsule_IsValid(capsule.get(), kDlpackCapsule) == 0) {
    return Fail(CallStatus::kUnsupported, path,
                "a tensor that is not plain and dense (sparse, quantized, nested or lazy)");
  }
  exports_.push_back({std::move(capsule), path});
  text_ += 'T';
  return true;
}

bool CallOutputs::CollectSequence(PyObject* object, const std::string& path, int depth) {
  const bool is_tuple = PyTuple_Check(object);
  text_ += is_tuple ? '(' : '[';
  const Py_ssize_t count = is_tuple ? PyTuple_Size(object) : PyList_Size(object);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const item = is_tuple ? PyTuple_GetItem(object, i) : PyList_GetItem(object, i);
    if (item == nullptr)
      return Fail(CallStatus::kUnsupported, path, "changed while it was read");
    if (!CollectValue(item, path + "[" + std::to_string(i) + "]", depth + 1))
      return false;
  }
  text_ += is_tuple ? ')' : ']';
  return true;
}

bool CallOutputs::CollectDict(PyObject* object, const std::string& path, int depth) {
  // A copy, since reading a value could run code of the candidate that changes the dict.
  const PythonRef copy(PyDict_Copy(object));
  if (!copy)
    return Fail(CallStatus::kUnsupported, path, "a dict that cannot be read");
  text_ += '{';
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  PyObject* item = nullptr;
  while (PyDict_Next(copy.get(), &position, &key, &item) != 0) {
    if (!PyUnicode_Check(key) && (!PyLong_Check(key) || PyBool_Check(key)))
      return Fail(CallStatus::kUnsupported, path, "a dict with a key that is neither str nor int");
    if (!CollectScalar(key, path) || !CollectValue(item, path + "[...]", depth + 1))
      return false;
  }
  text_ += '}';
  return true;
}

bool CallOutputs::CollectScalar(PyObject* object, const std::string& path) {
  if (object == Py_None) {
    text_ += 'N';
  } else if (PyBool_Check(object)) {
    text_ += object == Py_True ? "B1" : "B0";
  } else if (PyLong_Check(object)) {
    const long long number = PyLong_AsLongLong(object);
    if (number == -1 && PyErr_Occurred() != nullptr)
      return Fail(CallStatus::kUnsupported, path, "an int of more than 64 bits");
    text_ += "I" + std::to_string(number) + ";";
  } else if (PyFloat_Check(object)) {
    const double number = PyFloat_AsDouble(object);
    uint64_t bits = 0;
    memcpy(&bits, &number, sizeof(bits));
    char digits[20];
    snprintf(digits, sizeof(digits), "F%016llx", static_cast<unsigned long long>(bits));
    text_ += digits;
  } else if (PyUnicode_Check(object)) {
    Py_ssize_t bytes = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &bytes);
    if (text == nullptr)
      return Fail(CallStatus::kUnsupported, path, "a str that is not valid Unicode");
    text_ += "S" + std::to_string(bytes) + ":";
    text_.append(text, static_cast<std::size_t>(bytes));
  } else {
    return Fail(CallStatus::kUnsupported, path,
                "expected a tensor, got an object of type " + TypeName(object));
  }
  if (text_.size() > kTextBytesMax - kClosingBytesMax)
    return Fail(CallStatus::kUnsupported, path, "too many values");
  return true;
}

void SetText(const std::string& text, CallRecord& record) {
  record.text_bytes = static_cast<uint32_t>(std::min(text.size(), kTextBytesMax));
  memcpy(record.text, text.data(), record.text_bytes);
}

}  // namespace pike::gpu
