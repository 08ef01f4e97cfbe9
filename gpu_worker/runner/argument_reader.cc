#include "gpu_worker/runner/argument_reader.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "gpu_worker/runner/dlpack_abi.h"
#include "gpu_worker/runner/packed_copy.h"

namespace pike::gpu {

// Memory of one tensor. The tensor may drop it at any time (set_, resize_), so it is counted.
struct PrivateBlock {
  std::atomic<int> references{1};
  void* bytes = nullptr;
  std::size_t size = 0;
  uint64_t buffer_offset = 0;
  DlpackManagedTensor managed = {};
  int64_t shape[kDimsMax] = {};
  int64_t strides[kDimsMax] = {};
};

void PrivateBlockRelease::operator()(PrivateBlock* block) const {
  if (block->references.fetch_sub(1) == 1) {
    free(block->bytes);
    delete block;
  }
}

namespace {

using BlockRef = std::unique_ptr<PrivateBlock, PrivateBlockRelease>;

void DeleteManaged(DlpackManagedTensor* managed) {
  PrivateBlockRelease()(static_cast<PrivateBlock*>(managed->owner));
}

// A capsule that nobody took still owns its tensor.
void DestroyCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kDlpackCapsule) == 0)
    return;
  auto* managed = static_cast<DlpackManagedTensor*>(PyCapsule_GetPointer(capsule, kDlpackCapsule));
  managed->deleter(managed);
}

BlockRef CopyBlock(const TensorSpec& spec, const uint8_t* input_buffer) {
  const StridedLayout layout = {spec.dim_count, spec.dims, nullptr, spec.bits / 8u};
  BlockRef block(new PrivateBlock);
  block->size = FindPackedBytes(layout).value_or(0);
  block->buffer_offset = spec.offset;
  if (posix_memalign(&block->bytes, kBufferAlignment, std::max<std::size_t>(block->size, 1)) != 0) {
    block->bytes = nullptr;
    return nullptr;
  }
  if (block->size > 0)
    memcpy(block->bytes, input_buffer + spec.offset, block->size);
  std::copy_n(spec.dims, kDimsMax, block->shape);
  std::copy_n(spec.strides, kDimsMax, block->strides);
  block->managed.tensor = {.bytes = block->bytes,
                           .device = {kDlpackCpu, 0},
                           .dim_count = spec.dim_count,
                           .element = {spec.type_code, spec.bits, 1},
                           .shape = block->shape,
                           .strides = block->strides,
                           .byte_offset = 0};
  block->managed.owner = block.get();
  block->managed.deleter = DeleteManaged;
  return block;
}

}  // namespace

bool CallArguments::Read(const CallRecord& call, const uint8_t* input_buffer,
                         const PythonHooks& hooks) {
  call_ = &call;
  input_buffer_ = input_buffer;
  hooks_ = &hooks;
  rest_ = std::string_view(call.text, call.text_bytes);
  tuple_.reset(ReadValue());
  return tuple_ != nullptr;
}

bool CallArguments::IsUnchanged(const uint8_t* input_buffer) const {
  return std::all_of(blocks_.begin(), blocks_.end(), [input_buffer](const BlockRef& block) {
    return block->size == 0 ||
           memcmp(block->bytes, input_buffer + block->buffer_offset, block->size) == 0;
  });
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
  if (blocks_.size() >= call_->tensor_count || blocks_.size() >= kTensorsMax) {
    PyErr_SetString(PyExc_RuntimeError, "malformed call record");
    return nullptr;
  }
  const TensorSpec& spec = call_->tensors[blocks_.size()];
  BlockRef block = CopyBlock(spec, input_buffer_);
  if (!block)
    return PyErr_NoMemory();
  block->references.fetch_add(1);  // the capsule's
  const PythonRef capsule(PyCapsule_New(&block->managed, kDlpackCapsule, DestroyCapsule));
  if (!capsule) {
    DeleteManaged(&block->managed);
    return nullptr;
  }
  blocks_.push_back(std::move(block));
  PythonRef tensor(PyObject_CallFunctionObjArgs(hooks_->from_dlpack.get(), capsule.get(), nullptr));
  if (!tensor || spec.requires_grad == 0)
    return tensor.release();
  return PyObject_CallFunctionObjArgs(hooks_->require_grad.get(), tensor.get(), nullptr);
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
