// The Python module _pike_runner: the call loop around a candidate. It knows nothing that a
// candidate may not know, since both live in one process.

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "gpu_worker/runner/argument_reader.h"
#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/output_writer.h"
#include "gpu_worker/runner/python_ref.h"

namespace pike::gpu {
namespace {

// A buffer of the judge, mapped here.
class MappedBuffer {
 public:
  MappedBuffer() = default;
  MappedBuffer(const MappedBuffer&) = delete;
  MappedBuffer& operator=(const MappedBuffer&) = delete;
  ~MappedBuffer() { Unmap(); }

  // Maps all of `fd`, which stays the caller's.
  bool Map(int fd, int protection) {
    Unmap();
    struct stat facts = {};
    if (fstat(fd, &facts) != 0)
      return false;
    void* const mapping = mmap(nullptr, static_cast<std::size_t>(facts.st_size), protection,
                               MAP_SHARED, fd, /*offset=*/0);
    if (mapping == MAP_FAILED)
      return false;
    bytes_ = static_cast<uint8_t*>(mapping);
    size_ = static_cast<std::size_t>(facts.st_size);
    return true;
  }

  uint8_t* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }

 private:
  void Unmap() {
    if (bytes_ != nullptr)
      munmap(bytes_, size_);
    bytes_ = nullptr;
  }

  uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0;
};

class CallLoop {
 public:
  CallLoop(int channel, PyObject* candidate, PythonHooks hooks)
      : channel_(channel), candidate_(candidate), hooks_(std::move(hooks)) {}

  // Serves calls until the judge closes its end or breaks the protocol.
  void Run() {
    while (Receive() && Serve() && Send()) {
    }
  }

 private:
  bool Receive() {
    ssize_t received = -1;
    int fds[2] = {-1, -1};
    Py_BEGIN_ALLOW_THREADS;
    received = ReceiveRecord(fds);
    Py_END_ALLOW_THREADS;
    if (received != static_cast<ssize_t>(sizeof(call_)) || call_.magic != kCallMagic ||
        call_.kind != RecordKind::kCall || call_.tensor_count > kTensorsMax ||
        call_.text_bytes > kTextBytesMax)
      return false;
    if ((call_.flags & kHasBuffers) == 0)
      return input_.bytes() != nullptr && output_.bytes() != nullptr;
    const bool is_mapped =
        input_.Map(fds[0], PROT_READ) && output_.Map(fds[1], PROT_READ | PROT_WRITE);
    close(fds[0]);
    close(fds[1]);
    return is_mapped;
  }

  ssize_t ReceiveRecord(int (&fds)[2]) {
    iovec part = {&call_, sizeof(call_)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(fds))];
    msghdr message = {};
    ssize_t received = -1;
    do {
      message = {};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      received = recvmsg(channel_, &message, MSG_CMSG_CLOEXEC);
    } while (received < 0 && errno == EINTR);
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    if (received > 0 && header != nullptr && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof(fds)))
      memcpy(fds, CMSG_DATA(header), sizeof(fds));
    return received;
  }

  // Makes the call and fills the reply in. False only on a bug of ours.
  bool Serve() {
    reply_ = {};
    reply_.magic = kCallMagic;
    reply_.kind = RecordKind::kReply;
    reply_.nonce = call_.nonce;
    CallArguments arguments;
    const PythonRef seed(PyLong_FromUnsignedLongLong(call_.rng_seed));
    if (!arguments.Read(call_, input_.bytes(), hooks_) || !seed)
      return SetRaised();
    const PythonRef disabled(PyObject_CallFunctionObjArgs(hooks_.disable_gradients.get(), nullptr));
    const PythonRef seeded(
        PyObject_CallFunctionObjArgs(hooks_.seed_all.get(), seed.get(), nullptr));
    if (!disabled || !seeded)
      return SetRaised();

    const auto start = std::chrono::steady_clock::now();
    const PythonRef returned(PyObject_CallObject(candidate_, arguments.tuple()));
    CallOutputs outputs(hooks_);
    if (returned)
      outputs.Collect(returned.get());
    const auto elapsed = std::chrono::steady_clock::now() - start;

    reply_.claim_ns = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
    if (!returned)
      return SetRaised();
    if (!arguments.IsUnchanged(input_.bytes()))
      reply_.flags |= kInputMutated;
    outputs.Write({output_.bytes(), output_.size()}, reply_);
    return true;
  }

  // Takes the pending exception as the reply.
  bool SetRaised() {
    PyObject* type = nullptr;
    PyObject* value = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr && value != nullptr)
      PyException_SetTraceback(value, traceback);
    const PythonRef type_ref(type);
    const PythonRef value_ref(value);
    const PythonRef traceback_ref(traceback);
    reply_.status = CallStatus::kRaised;
    const PythonRef parts(value == nullptr ? nullptr
                                           : PyObject_CallFunctionObjArgs(
                                                 hooks_.describe_error.get(), value, nullptr));
    std::string text;
    for (Py_ssize_t i = 0; parts && PyTuple_Check(parts.get()) && i < PyTuple_Size(parts.get());
         ++i) {
      Py_ssize_t bytes = 0;
      const char* const part = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(parts.get(), i), &bytes);
      const std::string word(part == nullptr ? "?" : part,
                             part == nullptr ? 1 : static_cast<std::size_t>(bytes));
      if (i == 2) {
        if (word == "memory")
          reply_.status = CallStatus::kMemory;
      } else {
        text += i == 0 ? word + '\0' : word;
      }
    }
    PyErr_Clear();
    SetText(text, reply_);
    return true;
  }

  bool Send() {
    ssize_t sent = -1;
    Py_BEGIN_ALLOW_THREADS;
    do {
      sent = send(channel_, &reply_, sizeof(reply_), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    Py_END_ALLOW_THREADS;
    return sent == static_cast<ssize_t>(sizeof(reply_));
  }

  const int channel_;
  PyObject* const candidate_;
  const PythonHooks hooks_;
  MappedBuffer input_;
  MappedBuffer output_;
  CallRecord call_ = {};
  CallRecord reply_ = {};
};

PythonRef TakeHook(PyObject* hooks, Py_ssize_t index) {
  PyObject* const hook = PyTuple_GetItem(hooks, index);
  Py_XINCREF(hook);
  return PythonRef(hook);
}

PyObject* ServeCalls(PyObject* /*self*/, PyObject* arguments) {
  int channel = -1;
  PyObject* candidate = nullptr;
  PyObject* hooks = nullptr;
  constexpr Py_ssize_t kHooks = 8;
  if (PyArg_ParseTuple(arguments, "iOO", &channel, &candidate, &hooks) == 0)
    return nullptr;
  if (!PyTuple_Check(hooks) || PyTuple_Size(hooks) != kHooks) {
    PyErr_SetString(PyExc_TypeError, "hooks must be a tuple of 8");
    return nullptr;
  }
  const auto loop = std::make_unique<CallLoop>(channel, candidate,
                                               PythonHooks{.tensor_type = TakeHook(hooks, 0),
                                                           .to_dlpack = TakeHook(hooks, 1),
                                                           .from_dlpack = TakeHook(hooks, 2),
                                                           .require_grad = TakeHook(hooks, 3),
                                                           .resolve = TakeHook(hooks, 4),
                                                           .seed_all = TakeHook(hooks, 5),
                                                           .disable_gradients = TakeHook(hooks, 6),
                                                           .describe_error = TakeHook(hooks, 7)});
  loop->Run();
  Py_INCREF(Py_None);
  return Py_None;
}

PyMethodDef methods[] = {
    {"serve", ServeCalls, METH_VARARGS,
     "(channel_fd, candidate, hooks): answers calls until the judge closes its end"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "_pike_runner",
                      "The runner's call loop.",
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
PyMODINIT_FUNC PyInit__pike_runner() {
  return PyModule_Create(&pike::gpu::module);
}
