// The Python module _pike_runner: the call loop around a candidate. It knows nothing that a
// candidate may not know, since both live in one process.

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "gpu_worker/runner/argument_reader.h"
#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/cuda_driver.h"
#include "gpu_worker/runner/exchange_mapping.h"
#include "gpu_worker/runner/output_writer.h"
#include "gpu_worker/runner/python_ref.h"
#include "gpu_worker/runner/runner_gpu.h"

namespace pike::gpu {
namespace {

// The descriptors that came with a call; closes them.
class ReceivedFds {
 public:
  ReceivedFds() = default;
  ReceivedFds(const ReceivedFds&) = delete;
  ReceivedFds& operator=(const ReceivedFds&) = delete;
  ~ReceivedFds() { Set({-1, -1}); }

  void Set(const std::array<int, 2>& fds) {
    for (const int fd : fds_) {
      if (fd >= 0)
        close(fd);
    }
    fds_ = fds;
  }
  bool are_there() const { return fds_[0] >= 0 && fds_[1] >= 0; }
  int input() const { return fds_[0]; }
  int output() const { return fds_[1]; }

 private:
  std::array<int, 2> fds_ = {-1, -1};
};

uint64_t NsSince(std::chrono::steady_clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
}

class CallLoop {
 public:
  // `gpu` is null on device cpu.
  CallLoop(int channel, PyObject* candidate, PythonHooks hooks, std::unique_ptr<RunnerGpu> gpu)
      : channel_(channel), candidate_(candidate), hooks_(std::move(hooks)), gpu_(std::move(gpu)) {}

  // Serves calls until the judge closes its end or breaks the protocol.
  void Run() {
    while (Receive() && Serve() && Send()) {
    }
  }

 private:
  bool Receive() {
    ssize_t received = -1;
    std::array<int, 2> fds = {-1, -1};
    Py_BEGIN_ALLOW_THREADS;
    received = ReceiveRecord(fds);
    Py_END_ALLOW_THREADS;
    fds_.Set(fds);
    if (received != static_cast<ssize_t>(sizeof(call_)) || call_.magic != kCallMagic ||
        call_.kind != RecordKind::kCall || call_.tensor_count > kTensorsMax ||
        call_.text_bytes > kTextBytesMax)
      return false;
    return (call_.flags & kHasBuffers) == 0 ? input_.is_mapped() && output_.is_mapped()
                                            : fds_.are_there();
  }

  ssize_t ReceiveRecord(std::array<int, 2>& fds) {
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
      memcpy(fds.data(), CMSG_DATA(header), sizeof(fds));
    return received;
  }

  // Makes the call and fills the reply in. False only on a bug of ours.
  bool Serve() {
    reply_ = {};
    reply_.magic = kCallMagic;
    reply_.kind = RecordKind::kReply;
    reply_.nonce = call_.nonce;
    const std::string error = gpu_ ? gpu_->Start() : "";
    if (!error.empty())
      return SetGpuError(error);
    if ((call_.flags & kHasBuffers) != 0 && !MapBuffers())
      return gpu_ != nullptr;
    const PythonRef reset(PyObject_CallFunctionObjArgs(hooks_.reset.get(), nullptr));
    CallArguments arguments(call_, input_, hooks_, gpu_.get());
    const PythonRef seed(PyLong_FromUnsignedLongLong(call_.rng_seed));
    if (!reset || !arguments.Read() || !seed)
      return SetRaised();
    const PythonRef seeded(
        PyObject_CallFunctionObjArgs(hooks_.seed_all.get(), seed.get(), nullptr));
    if (!seeded)
      return SetRaised();
    CallOutputs outputs(hooks_);
    const PythonRef returned(gpu_ ? CallOnGpu(arguments, outputs) : CallOnHost(arguments, outputs));
    if (!returned)
      return PyErr_Occurred() != nullptr ? SetRaised() : true;
    if (!arguments.IsUnchanged())
      reply_.flags |= kInputMutated;
    return gpu_ ? WriteFromGpu(outputs) : outputs.Write(output_, nullptr, reply_).empty();
  }

  // Without a GPU a failure ends the loop. With one it is a reply, as the memory may be full.
  bool MapBuffers() {
    const bool is_mapped = MapFds();
    fds_.Set({-1, -1});
    return is_mapped;
  }

  bool MapFds() {
    const bool is_device = (call_.flags & kDeviceBuffers) != 0;
    if (!gpu_) {
      return !is_device && input_.MapHost(fds_.input(), PROT_READ) &&
             output_.MapHost(fds_.output(), PROT_READ | PROT_WRITE);
    }
    if (!is_device) {
      const bool is_mapped = input_.MapHostForGpu(fds_.input(), gpu_->driver()) &&
                             output_.MapHostForGpu(fds_.output(), gpu_->driver());
      return is_mapped || !SetGpuError("the judge's buffers cannot be mapped");
    }
    CuResult result = input_.MapDevice(fds_.input(), call_.input_buffer_bytes, gpu_->driver());
    if (result == kCuSuccess)
      result = output_.MapDevice(fds_.output(), call_.output_buffer_bytes, gpu_->driver());
    const std::string error = gpu_->Explain(result);
    return error.empty() || !SetGpuError(error);
  }

  // Null with an exception pending if the candidate raised.
  PyObject* CallOnHost(const CallArguments& arguments, CallOutputs& outputs) {
    const auto start = std::chrono::steady_clock::now();
    PythonRef returned(PyObject_CallObject(candidate_, arguments.tuple()));
    if (returned)
      outputs.Collect(returned.get());
    reply_.claim_ns = NsSince(start);
    return returned.release();
  }

  // The same; null without an exception, and the reply filled in, if the GPU reports an error.
  PyObject* CallOnGpu(const CallArguments& arguments, CallOutputs& outputs) {
    // Inputs are there before the call, for streams that do not wait for the default one, too.
    std::string error = OffInterpreter([this] { return gpu_->Synchronise(); });
    if (error.empty())
      error = gpu_->StartClock();
    if (!error.empty())
      return SetGpuError(error), nullptr;
    const auto start = std::chrono::steady_clock::now();
    PythonRef returned(PyObject_CallObject(candidate_, arguments.tuple()));
    if (returned)
      outputs.Collect(returned.get());
    reply_.return_ns = NsSince(start);
    error = OffInterpreter([this] { return gpu_->StopClock(reply_.claim_ns); });
    if (!returned || error.empty())
      return returned.release();
    return SetGpuError(error), nullptr;
  }

  bool WriteFromGpu(CallOutputs& outputs) {
    std::string error = outputs.Write(output_, gpu_.get(), reply_);
    if (error.empty())
      error = OffInterpreter([this] { return gpu_->Synchronise(); });
    return error.empty() || SetGpuError(error);
  }

  template <typename Action>
  static std::string OffInterpreter(Action action) {
    std::string text;
    Py_BEGIN_ALLOW_THREADS;
    text = action();
    Py_END_ALLOW_THREADS;
    return text;
  }

  // An error that the GPU reported where no exception could.
  bool SetGpuError(const std::string& error) {
    reply_.tensor_count = 0;
    reply_.status = gpu_->is_out_of_memory() ? CallStatus::kMemory : CallStatus::kRaised;
    SetText(std::string("CudaError") + '\0' + error, reply_);
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
  const std::unique_ptr<RunnerGpu> gpu_;
  ReceivedFds fds_;
  ExchangeMapping input_;
  ExchangeMapping output_;
  CallRecord call_ = {};
  CallRecord reply_ = {};
};

// Nothing with a Python exception set if a hook is missing.
bool TakeHooks(PyObject* names, PythonHooks& hooks) {
  const std::pair<const char*, PythonRef*> wanted[] = {
      {"tensor_type", &hooks.tensor_type},
      {"to_dlpack", &hooks.to_dlpack},
      {"from_dlpack", &hooks.from_dlpack},
      {"require_grad", &hooks.require_grad},
      {"resolve", &hooks.resolve},
      {"seed_all", &hooks.seed_all},
      {"reset", &hooks.reset},
      {"describe_error", &hooks.describe_error},
      {"allocate", &hooks.allocate},
      {"is_equal", &hooks.is_equal},
  };
  for (const auto& [name, hook] : wanted) {
    PyObject* const found = PyDict_GetItemString(names, name);
    if (found == nullptr) {
      PyErr_Format(PyExc_TypeError, "hooks lack %s", name);
      return false;
    }
    Py_INCREF(found);
    hook->reset(found);
  }
  return true;
}

// The driver as it is before a candidate is loaded. Null, with a Python exception set, without one.
std::unique_ptr<RunnerGpu> NewGpu() {
  CudaDriver driver;
  const std::string error = LoadCudaDriver(driver);
  if (error.empty())
    return std::make_unique<RunnerGpu>(driver);
  PyErr_SetString(PyExc_RuntimeError, error.c_str());
  return nullptr;
}

// Found before the candidate is loaded, used by ServeCalls.
std::unique_ptr<RunnerGpu>& TheGpu() {
  static auto* const gpu = new std::unique_ptr<RunnerGpu>;
  return *gpu;
}

PyObject* UseGpu(PyObject* /*self*/, PyObject* /*arguments*/) {
  TheGpu() = NewGpu();
  if (!TheGpu())
    return nullptr;
  Py_INCREF(Py_None);
  return Py_None;
}

PyObject* ServeCalls(PyObject* /*self*/, PyObject* arguments) {
  int channel = -1;
  PyObject* candidate = nullptr;
  PyObject* names = nullptr;
  PythonHooks hooks;
  if (PyArg_ParseTuple(arguments, "iOO!", &channel, &candidate, &PyDict_Type, &names) == 0 ||
      !TakeHooks(names, hooks))
    return nullptr;
  const auto loop =
      std::make_unique<CallLoop>(channel, candidate, std::move(hooks), std::move(TheGpu()));
  loop->Run();
  Py_INCREF(Py_None);
  return Py_None;
}

PyMethodDef methods[] = {
    {"use_gpu", UseGpu, METH_NOARGS,
     "(): serve() will use the GPU; loads the driver, starts no context"},
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
