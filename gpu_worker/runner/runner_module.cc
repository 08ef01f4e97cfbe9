// The Python module _pike_runner: the call loop around a candidate. It knows nothing that a
// candidate may not know, since both live in one process.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "gpu_worker/runner/argument_reader.h"
#include "gpu_worker/runner/call_protocol.h"
#include "gpu_worker/runner/cuda_driver.h"
#include "gpu_worker/runner/exchange_mapping.h"
#include "gpu_worker/runner/input_mapping.h"
#include "gpu_worker/runner/output_writer.h"
#include "gpu_worker/runner/python_ref.h"
#include "gpu_worker/runner/record_channel.h"
#include "gpu_worker/runner/runner_gpu.h"

namespace pike::gpu {
namespace {

uint64_t NsSince(std::chrono::steady_clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
}

// What a call leaves behind until the judge lets go of it.
struct CallInProgress {
  CallInProgress(ReceivedFds received, const PythonHooks& hooks, InputMappingRef inputs)
      : fds(std::move(received)),
        arguments(hooks, std::move(inputs), fds.first()),
        outputs(hooks) {}
  CallInProgress(const PythonHooks& hooks, const ExchangeMapping& buffer, RunnerGpu& gpu)
      : arguments(hooks, buffer, gpu), outputs(hooks) {}

  ReceivedFds fds;
  CallArguments arguments;
  CallOutputs outputs;
  PythonRef returned;
};

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
    bool is_received = false;
    Py_BEGIN_ALLOW_THREADS;
    is_received = ReceiveRecord(channel_, call_, fds_);
    Py_END_ALLOW_THREADS;
    return is_received;
  }

  // Does what the record asks for and fills the answer in. False only on a bug of ours.
  bool Serve() {
    reply_ = {};
    reply_.magic = kCallMagic;
    reply_.nonce = call_.nonce;
    switch (call_.kind) {
      case RecordKind::kPrepare:
        reply_.kind = RecordKind::kReady;
        return Prepare();
      case RecordKind::kCall:
        reply_.kind = RecordKind::kReply;
        return Call();
      case RecordKind::kRelease:
        reply_.kind = RecordKind::kReleased;
        return Release();
      default:
        return false;
    }
  }

  // All that can be done before there is an input.
  bool Prepare() {
    in_progress_.reset();
    output_bytes_max_ = call_.output_buffer_bytes;
    const std::string error = gpu_ ? gpu_->Start() : "";
    if (!error.empty())
      return SetGpuError(error);
    if (gpu_ && (call_.flags & kHasBuffers) != 0 && !MapBuffers())
      return true;
    const PythonRef reset(PyObject_CallFunctionObjArgs(hooks_.reset.get(), nullptr));
    const PythonRef seed(PyLong_FromUnsignedLongLong(call_.rng_seed));
    const PythonRef seeded(
        reset && seed ? PyObject_CallFunctionObjArgs(hooks_.seed_all.get(), seed.get(), nullptr)
                      : nullptr);
    return seeded || SetRaised();
  }

  bool Call() {
    in_progress_ = NewCall();
    if (!in_progress_)
      return false;
    if (!in_progress_->arguments.Read(call_))
      return SetRaised();
    if (!(gpu_ ? CallOnGpu() : CallOnHost()))
      return PyErr_Occurred() != nullptr ? SetRaised() : true;
    if (gpu_)
      return WriteFromGpu(in_progress_->outputs);
    in_progress_->outputs.Describe(output_bytes_max_, reply_);
    return true;
  }

  // Null if the judge's descriptor cannot be mapped, or a buffer was never handed over.
  std::unique_ptr<CallInProgress> NewCall() {
    if (gpu_) {
      return input_.is_mapped() && output_.is_mapped()
                 ? std::make_unique<CallInProgress>(hooks_, input_, *gpu_)
                 : nullptr;
    }
    InputMappingRef inputs(InputMapping::Map(fds_.first(), call_.input_buffer_bytes));
    if (!inputs)
      return nullptr;
    return std::make_unique<CallInProgress>(std::move(fds_), hooks_, std::move(inputs));
  }

  // Off the clock: the judge has the outputs.
  bool Release() {
    if (in_progress_ && !in_progress_->arguments.IsUnchanged())
      reply_.flags |= kInputMutated;
    in_progress_.reset();
    return true;
  }

  // False, and the reply filled in, if the memory is full, for instance.
  bool MapBuffers() {
    const ReceivedFds fds = std::move(fds_);
    if ((call_.flags & kDeviceBuffers) == 0) {
      const bool is_mapped = input_.MapHostForGpu(fds.first(), gpu_->driver()) &&
                             output_.MapHostForGpu(fds.second(), gpu_->driver());
      return is_mapped || !SetGpuError("the judge's buffers cannot be mapped");
    }
    CuResult result = input_.MapDevice(fds.first(), call_.input_buffer_bytes, gpu_->driver());
    if (result == kCuSuccess)
      result = output_.MapDevice(fds.second(), call_.output_buffer_bytes, gpu_->driver());
    const std::string error = gpu_->Explain(result);
    return error.empty() || !SetGpuError(error);
  }

  // False with an exception pending if the candidate raised.
  bool CallOnHost() {
    const auto start = std::chrono::steady_clock::now();
    in_progress_->returned.reset(PyObject_CallObject(candidate_, in_progress_->arguments.tuple()));
    if (in_progress_->returned) {
      in_progress_->outputs.Collect(in_progress_->returned.get());
      in_progress_->outputs.CloseGaps();
    }
    reply_.claim_ns = NsSince(start);
    return in_progress_->returned != nullptr;
  }

  // The same; false without an exception, and the reply filled in, if the GPU reports an error.
  bool CallOnGpu() {
    // Inputs are there before the call, for streams that do not wait for the default one, too.
    std::string error = OffInterpreter([this] { return gpu_->Synchronise(); });
    if (error.empty())
      error = gpu_->StartClock();
    if (!error.empty())
      return !SetGpuError(error);
    const auto start = std::chrono::steady_clock::now();
    in_progress_->returned.reset(PyObject_CallObject(candidate_, in_progress_->arguments.tuple()));
    if (in_progress_->returned)
      in_progress_->outputs.Collect(in_progress_->returned.get());
    reply_.return_ns = NsSince(start);
    error = OffInterpreter([this] { return gpu_->StopClock(reply_.claim_ns); });
    if (!in_progress_->returned || error.empty())
      return in_progress_->returned != nullptr;
    return !SetGpuError(error);
  }

  bool WriteFromGpu(CallOutputs& outputs) {
    std::string error = outputs.Write(output_, *gpu_, reply_);
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

  // With the first answer of a runner without a GPU goes a descriptor of its own memory.
  bool Send() {
    int memory = -1;
    if (!gpu_ && !std::exchange(has_sent_memory_, true)) {
      memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
      if (memory < 0)
        return false;
    }
    bool is_sent = false;
    Py_BEGIN_ALLOW_THREADS;
    is_sent = SendRecord(channel_, reply_, memory);
    Py_END_ALLOW_THREADS;
    if (memory >= 0)
      close(memory);
    return is_sent;
  }

  const int channel_;
  PyObject* const candidate_;
  const PythonHooks hooks_;
  const std::unique_ptr<RunnerGpu> gpu_;
  ReceivedFds fds_;
  ExchangeMapping input_;
  ExchangeMapping output_;
  std::unique_ptr<CallInProgress> in_progress_;
  std::size_t output_bytes_max_ = 0;
  bool has_sent_memory_ = false;
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
