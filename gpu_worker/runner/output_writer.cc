#include "gpu_worker/runner/output_writer.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "gpu_worker/runner/device_copy.h"
#include "gpu_worker/runner/dlpack_abi.h"
#include "gpu_worker/runner/packed_copy.h"

namespace pike::gpu {
namespace {

constexpr int kDepthMax = 16;
// A tensor whose memory is so many times as long as its packed bytes is brought together.
constexpr std::size_t kGapsFactor = 2;
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
  CuResult result = kCuSuccess;
};

TensorCopy Unsupported(std::string why) {
  return {.bytes = 0, .status = CallStatus::kUnsupported, .failure = std::move(why)};
}

TensorCopy TooLarge(std::size_t buffer_bytes) {
  return {.bytes = 0,
          .status = CallStatus::kTooLarge,
          .failure = "outputs larger than twice the reference's, of " +
                     std::to_string(buffer_bytes) + " bytes at most"};
}

void SetPackedStrides(TensorSpec& spec) {
  int64_t stride = 1;
  for (std::size_t i = spec.dim_count; i > 0; --i) {
    spec.strides[i - 1] = stride;
    stride *= std::max<int64_t>(spec.dims[i - 1], 1);
  }
}

// Copies a tensor in host memory to `used` in the buffer.
TensorCopy CopyHostTensor(const StridedLayout& layout, const uint8_t* source,
                          const ExchangeMapping& buffer, std::size_t used) {
  const std::optional<std::size_t> bytes = FindPackedBytes(layout);
  if (!bytes || used > buffer.size() || *bytes > buffer.size() - used)
    return TooLarge(buffer.size());
  CopyPacked(buffer.bytes() + used, source, layout);
  return {.bytes = *bytes, .status = CallStatus::kOk, .failure = ""};
}

// The same for a tensor in host memory and a buffer of the GPU: by way of packed host memory.
TensorCopy CopyHostTensorIn(const StridedLayout& layout, const uint8_t* source,
                            const ExchangeMapping& buffer, std::size_t used, RunnerGpu& gpu) {
  const std::optional<std::size_t> bytes = FindPackedBytes(layout);
  if (!bytes || used > buffer.size() || *bytes > buffer.size() - used)
    return TooLarge(buffer.size());
  if (*bytes == 0)
    return {};
  std::vector<uint8_t> packed(*bytes);
  CopyPacked(packed.data(), source, layout);
  const CudaDriver& driver = gpu.driver();
  CuResult result = driver.copy_in(buffer.address() + used, packed.data(), *bytes, nullptr);
  if (result == kCuSuccess)
    result = driver.synchronize();
  return {.bytes = *bytes, .status = CallStatus::kOk, .failure = "", .result = result};
}

// The same for a tensor on the GPU, which may keep its strides.
TensorCopy CopyDeviceTensor(const DlpackTensor& tensor, const StridedLayout& layout,
                            const ExchangeMapping& buffer, std::size_t used, RunnerGpu& gpu,
                            TensorSpec& spec) {
  const std::size_t room = used > buffer.size() ? 0 : buffer.size() - used;
  const CopyPlan plan = PlanCopy(layout, room);
  if (plan.kind == CopyKind::kTooLarge)
    return TooLarge(buffer.size());
  if (plan.kind == CopyKind::kTooManyPieces)
    return Unsupported("a tensor with large gaps in its memory: return tensor.contiguous()");
  const bool is_device = buffer.address() != 0;
  const CopyTarget target = {is_device ? buffer.address() + used : 0,
                             is_device ? nullptr : buffer.bytes() + used};
  const CuAddress source = reinterpret_cast<CuAddress>(tensor.bytes) + tensor.byte_offset;
  TensorCopy copy = {.bytes = plan.bytes, .status = CallStatus::kOk, .failure = ""};
  if (plan.kind == CopyKind::kRows) {
    copy.result = CopyRows(gpu.driver(), target, source, layout);
    return copy;
  }
  if (tensor.strides != nullptr)
    std::copy_n(tensor.strides, tensor.dim_count, spec.strides);
  copy.result = CopySpan(gpu.driver(), target, source, plan.bytes);
  return copy;
}

// What a tensor is, in `spec`, as packed memory at `used`; or why it cannot be an output.
TensorCopy DescribeTensor(const DlpackTensor& tensor, bool has_gpu, std::size_t used,
                          TensorSpec& spec) {
  const bool is_on_gpu = has_gpu && tensor.device.type == kDlpackCuda;
  if (tensor.device.type != kDlpackCpu && !is_on_gpu)
    return Unsupported(has_gpu ? "a tensor on another device than cuda:0 and cpu"
                               : "a tensor on another device than cpu");
  if (tensor.dim_count < 0 || tensor.dim_count > static_cast<int32_t>(kDimsMax))
    return Unsupported("a tensor of more than 12 dimensions");
  if (tensor.element.lanes != 1 || tensor.element.bits % 8 != 0)
    return Unsupported("a tensor of a packed dtype");
  spec.type_code = tensor.element.code;
  spec.bits = tensor.element.bits;
  spec.dim_count = static_cast<uint8_t>(tensor.dim_count);
  spec.device_type = is_on_gpu ? kCudaTensor : kHostTensor;
  spec.offset = used;
  std::copy_n(tensor.shape, tensor.dim_count, spec.dims);
  SetPackedStrides(spec);
  return {};
}

StridedLayout LayoutOf(const DlpackTensor& tensor) {
  return {static_cast<std::size_t>(tensor.dim_count), tensor.shape, tensor.strides,
          tensor.element.bits / 8u};
}

const uint8_t* FirstByte(const DlpackTensor& tensor) {
  return static_cast<const uint8_t*>(tensor.bytes) + tensor.byte_offset;
}

const DlpackTensor& TensorOf(const PythonRef& capsule) {
  return static_cast<const DlpackManagedTensor*>(
             PyCapsule_GetPointer(capsule.get(), kDlpackCapsule))
      ->tensor;
}

// Copies one tensor to `used` in the buffer of a GPU's runner and describes it.
TensorCopy CopyTensor(const DlpackTensor& tensor, const ExchangeMapping& buffer, std::size_t used,
                      RunnerGpu& gpu, TensorSpec& spec) {
  TensorCopy described = DescribeTensor(tensor, /*has_gpu=*/true, used, spec);
  if (described.status != CallStatus::kOk)
    return described;
  const StridedLayout layout = LayoutOf(tensor);
  if (spec.device_type == kCudaTensor)
    return CopyDeviceTensor(tensor, layout, buffer, used, gpu, spec);
  return buffer.bytes() != nullptr ? CopyHostTensor(layout, FirstByte(tensor), buffer, used)
                                   : CopyHostTensorIn(layout, FirstByte(tensor), buffer, used, gpu);
}

}  // namespace

void CallOutputs::Collect(PyObject* outputs) {
  CollectValue(outputs, "out", /*depth=*/0);
}

void CallOutputs::CloseGaps() {
  for (Export& item : exports_) {
    const DlpackTensor& tensor = TensorOf(item.capsule);
    if (tensor.device.type != kDlpackCpu || tensor.element.bits % 8 != 0 || tensor.dim_count < 0)
      continue;
    const StridedLayout layout = LayoutOf(tensor);
    const std::optional<std::size_t> packed = FindPackedBytes(layout);
    const std::optional<std::size_t> span = FindSpanBytes(layout);
    if (!packed || (span && *span / kGapsFactor <= *packed))
      continue;
    item.packed.resize(*packed);
    CopyPacked(item.packed.data(), FirstByte(tensor), layout);
  }
}

void CallOutputs::Describe(std::size_t bytes_max, CallRecord& reply) {
  std::size_t used = 0;
  for (const Export& item : exports_) {
    if (status_ != CallStatus::kOk)
      break;
    const DlpackTensor& tensor = TensorOf(item.capsule);
    TensorSpec& spec = reply.tensors[reply.tensor_count++];
    const TensorCopy described = DescribeTensor(tensor, /*has_gpu=*/false, used, spec);
    if (described.status != CallStatus::kOk) {
      Fail(described.status, item.path, described.failure);
      break;
    }
    const StridedLayout layout = LayoutOf(tensor);
    const std::size_t bytes =
        std::max(FindPackedBytes(layout).value_or(bytes_max + 1),
                 item.packed.empty() ? FindSpanBytes(layout).value_or(bytes_max + 1) : 0);
    if (used > bytes_max || bytes > bytes_max - used) {
      Fail(CallStatus::kTooLarge, item.path, TooLarge(bytes_max).failure);
      break;
    }
    used += (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    if (item.packed.empty() && tensor.strides != nullptr)
      std::copy_n(tensor.strides, tensor.dim_count, spec.strides);
    spec.offset =
        reinterpret_cast<uint64_t>(item.packed.empty() ? FirstByte(tensor) : item.packed.data());
  }
  Finish(reply);
}

std::string CallOutputs::Write(const ExchangeMapping& buffer, RunnerGpu& gpu, CallRecord& reply) {
  std::size_t used = 0;
  CuResult result = kCuSuccess;
  for (const Export& item : exports_) {
    if (status_ != CallStatus::kOk || result != kCuSuccess)
      break;
    const TensorCopy copy =
        CopyTensor(TensorOf(item.capsule), buffer, used, gpu, reply.tensors[reply.tensor_count++]);
    if (copy.status != CallStatus::kOk)
      Fail(copy.status, item.path, copy.failure);
    result = copy.result;
    used += (copy.bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  Finish(reply);
  return gpu.Explain(result);
}

void CallOutputs::Finish(CallRecord& reply) {
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
  exports_.push_back({std::move(capsule), path, {}});
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
