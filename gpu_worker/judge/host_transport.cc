// Device cpu. Each input lies in a memfd of its own, of which the runner has no descriptor before
// its call, and which nobody can write to. Outputs are read from the runner's own memory, where the
// candidate left them: a harness that copied them could be replaced by one that does not.

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "gpu_worker/judge/bench_device.h"
#include "gpu_worker/judge/call_transport.h"
#include "gpu_worker/judge/element_type.h"
#include "gpu_worker/runner/packed_copy.h"

namespace pike::gpu {
namespace {

constexpr std::size_t kFilePageBytes = 4096;
// Outputs are read in pieces of random order, about so many, none smaller than a page and none
// larger than kPieceBytesMax.
constexpr std::size_t kPieces = 1024;
constexpr std::size_t kPieceBytesMax = 64 << 10;

TaskFailure FileFailure(const char* what) {
  return {.where = "inputs",
          .kind = errno == ENOMEM ? "memory" : "exception",
          .error_type = "",
          .text = std::string(what) + ": errno " + std::to_string(errno)};
}

// All of `bytes`; false if the system refuses.
bool WriteAll(int fd, const uint8_t* from, std::size_t bytes, std::size_t offset) {
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, from, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    from += written;
    offset += static_cast<std::size_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

bool ReadAll(int fd, uint8_t* to, std::size_t bytes, uint64_t address) {
  while (bytes > 0) {
    const ssize_t got = pread(fd, to, bytes, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    to += got;
    address += static_cast<uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// Whether it is the memory of a process: reading another file could block, for instance.
bool IsProcessMemory(int fd) {
  struct statfs system = {};
  if (fstatfs(fd, &system) != 0 || system.f_type != PROC_SUPER_MAGIC)
    return false;
  char path[64] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  const std::string_view name(path, length < 0 ? 0 : static_cast<std::size_t>(length));
  return name.size() < sizeof(path) && name.size() > 4 && name.substr(name.size() - 4) == "/mem";
}

bool IsPacked(const TensorSpec& spec) {
  int64_t stride = 1;
  for (std::size_t i = spec.dim_count; i > 0; --i) {
    if (spec.dims[i - 1] != 1 && spec.strides[i - 1] != stride)
      return false;
    stride *= spec.dims[i - 1];
  }
  return true;
}

// A part of an output: where it is in the runner and where it goes in the snapshot.
struct Piece {
  uint64_t address = 0;
  std::size_t place = 0;
  std::size_t bytes = 0;
};

class HostTransport : public CallTransport {
 public:
  std::optional<TaskFailure> Prepare(std::size_t /*input_bytes*/, std::size_t output_bytes_max,
                                     CallRecord& prepare, std::vector<int>& /*fds*/) override {
    output_bytes_max_ = output_bytes_max;
    prepare.output_buffer_bytes = output_bytes_max;
    return std::nullopt;
  }

  std::string TakeDescriptor(UniqueFd fd) override {
    if (memory_.is_open())
      return "";
    if (!fd.is_open() || !IsProcessMemory(fd.get()))
      return "the runner did not hand its memory over";
    memory_ = std::move(fd);
    return "";
  }

  std::optional<TaskFailure> Reveal(const TaskValue& input, CallRecord& call,
                                    std::vector<int>& fds) override {
    call.input_buffer_bytes = input.file->size;
    fds = {input.file->fd.get()};
    return std::nullopt;
  }

  TakenOutputs Take(const CallRecord& reply, std::unique_ptr<PrivateBuffer>& snapshot) override {
    const uint64_t start_ns = NowNs();
    if (!PlacePieces(reply))
      return {std::nullopt, "a malformed reply was sent"};
    if (snapshot == nullptr || snapshot->size() < snapshot_bytes_)
      snapshot = NewHostBuffer(snapshot_bytes_);
    for (const Piece& piece : pieces_) {
      if (!ReadAll(memory_.get(), snapshot->bytes() + piece.place, piece.bytes, piece.address))
        return {std::nullopt, "an output lies where its runner has no memory"};
    }
    copy_ns_ = NowNs() - start_ns;
    return {};
  }

  void Arrange(CallRecord& reply, PrivateBuffer& snapshot) override {
    for (std::size_t i = 0; i < reply.tensor_count; ++i) {
      TensorSpec& spec = reply.tensors[i];
      spec.offset = places_[i];
      if (IsPacked(spec))
        continue;
      const StridedLayout layout = {spec.dim_count, spec.dims, spec.strides, spec.bits / 8u};
      std::vector<uint8_t> packed(PackedBytes(spec).value_or(0));
      CopyPacked(packed.data(), snapshot.bytes() + spec.offset, layout);
      std::copy(packed.begin(), packed.end(), snapshot.bytes() + spec.offset);
    }
  }

  uint64_t copy_ns() const override { return copy_ns_; }

 private:
  // Finds what to read, in an order that a runner cannot foresee: one that still computes when it
  // has replied cannot keep ahead of the reader. False if the reply is malformed.
  bool PlacePieces(const CallRecord& reply) {
    pieces_.clear();
    places_.clear();
    std::size_t used = 0;
    for (std::size_t i = 0; i < reply.tensor_count; ++i) {
      const TensorSpec& spec = reply.tensors[i];
      const std::optional<uint64_t> span = FindSpan(spec);
      if (!span)
        return false;
      const uint64_t room = std::max(*span, PackedBytes(spec).value_or(0));
      if (used > output_bytes_max_ || room > output_bytes_max_ - used)
        return false;
      places_.push_back(used);
      const std::size_t step = std::clamp(*span / kPieces / kFilePageBytes * kFilePageBytes,
                                          kFilePageBytes, kPieceBytesMax);
      for (uint64_t done = 0; done < *span; done += step)
        pieces_.push_back(
            {spec.offset + done, used + done, std::min<uint64_t>(step, *span - done)});
      used += (room + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    }
    snapshot_bytes_ = used;
    std::shuffle(pieces_.begin(), pieces_.end(), std::mt19937_64(SecretNumber()));
    return true;
  }

  UniqueFd memory_;
  std::size_t output_bytes_max_ = 0;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> places_;  // of the tensors in the snapshot
  std::size_t snapshot_bytes_ = 0;
  uint64_t copy_ns_ = 0;
};

}  // namespace

std::unique_ptr<CallTransport> NewHostTransport() {
  return std::make_unique<HostTransport>();
}

std::optional<TaskFailure> MakeInputFile(const TaskValue& input, InputFile& file) {
  InputFile made = {.fd = UniqueFd(memfd_create("pike", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
                    .size = (BufferBytes(input) / kFilePageBytes + 1) * kFilePageBytes};
  if (!made.fd.is_open())
    return FileFailure("memfd_create");
  if (ftruncate(made.fd.get(), static_cast<off_t>(made.size)) != 0)
    return FileFailure("ftruncate");
  std::size_t offset = 0;
  for (const TaskTensor& tensor : input.tensors) {
    const std::size_t bytes = PackedBytes(tensor.spec).value_or(0);
    if (!WriteAll(made.fd.get(), tensor.bytes, bytes, offset))
      return FileFailure("an input's memory");
    offset += (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  }
  // Nobody can write to it any more, by whatever descriptor or mapping.
  if (fcntl(made.fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
      0)
    return FileFailure("F_ADD_SEALS");
  file = std::move(made);
  return std::nullopt;
}

}  // namespace pike::gpu
