#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

// The records between judge and runner, over a socketpair(AF_UNIX, SOCK_SEQPACKET). Both sides live
// on one machine, so integers are in its byte order. Every record has exactly sizeof(CallRecord)
// bytes; whatever has another size is a violation. Standard library only: the runner's harness is
// built apart from the rest.
//
//   judge -> runner   kPrepare: the next call's seed; no input exists for the runner yet. With
//                     kHasBuffers two descriptors come along (SCM_RIGHTS): the buffer with the
//                     inputs and the buffer for the outputs. They replace earlier ones. With
//                     kDeviceBuffers they are allocations in the memory of the GPU
//                     (cuMemExportToShareableHandle), otherwise sealed memfds. Device cpu has none.
//   runner -> judge   kReady: it waits for the call. The first one on device cpu brings one
//                     descriptor, of its own /proc/self/mem, from which the judge reads outputs.
//   judge -> runner   kCall: calls the candidate once. On device cpu one descriptor comes along: a
//                     sealed memfd with the inputs of this call, which the runner can only read.
//   runner -> judge   kReply: the outputs, which stay as they are until kRelease.
//   judge -> runner   kRelease: the outputs are taken.
//   runner -> judge   kReleased: whether inputs were changed; nothing of the call is left.
//
// Each of the judge's records has a nonce of its own, which the answer repeats. Only kCall to
// kReply is timed. The judge closes its end when the evaluation is over. A record of the runner
// that is there before it was asked for, a wrong nonce, kind or size, or a second answer is a
// violation.
namespace pike::gpu {

inline constexpr uint32_t kCallMagic = 0x4b495031;  // "1PIK"
inline constexpr std::size_t kTensorsMax = 64;
inline constexpr std::size_t kDimsMax = 12;
inline constexpr std::size_t kTextBytesMax = 4096;
inline constexpr uint64_t kBufferAlignment = 64;  // of every tensor's offset in its buffer

enum class RecordKind : uint32_t {
  kCall = 1,
  kReply = 2,
  kPrepare = 3,
  kReady = 4,
  kRelease = 5,
  kReleased = 6,
};

// Outcome of a call as the runner saw it; only kReply carries one.
enum class CallStatus : uint32_t {
  kOk = 0,      // `text` describes the outputs
  kRaised = 1,  // the candidate raised: `text` is "type\0message and traceback"
  kUnsupported =
      2,          // an output cannot cross (no tensor, other device, sparse ...): `text` says why
  kTooLarge = 3,  // the outputs exceed `output_buffer_bytes`: `text` says how
  kMemory = 4,    // as kRaised, for want of memory
};

enum RecordFlags : uint32_t {
  kHasBuffers = 1,     // on kPrepare: two descriptors are attached
  kInputMutated = 2,   // on kReleased: the candidate changed its private copy of an input
  kDeviceBuffers = 4,  // on kPrepare, with kHasBuffers: they are memory of the GPU
};

// Where a tensor lies, by DLPack's numbers.
inline constexpr uint32_t kHostTensor = 1;
inline constexpr uint32_t kCudaTensor = 2;

// Element types by DLPack's codes (kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLComplex 5,
// kDLBool 6) and bits.
struct TensorSpec {
  uint8_t type_code;
  uint8_t bits;
  uint8_t dim_count;      // at most kDimsMax
  uint8_t requires_grad;  // inputs only
  uint32_t device_type;   // kHostTensor or kCudaTensor: for an input where it shall be
  // Of the first byte in the buffer or memfd; for outputs on device cpu its address in the runner.
  uint64_t offset;
  int64_t dims[kDimsMax];  // sizes, outermost first
  // In elements. Inputs: of a dense, not overlapping layout. Outputs: any that are not negative.
  int64_t strides[kDimsMax];
};

struct CallRecord {
  uint32_t magic;
  RecordKind kind;
  uint64_t nonce;               // random per record of the judge; the answer repeats it
  uint64_t rng_seed;            // on kPrepare: for torch.manual_seed before the call; public
  uint64_t claim_ns;            // on kReply: the runner's own clock around the call
  uint64_t return_ns;           // on kReply, with a GPU: until it returned to the host
  uint64_t input_buffer_bytes;  // on kPrepare: size of the buffer; on kCall: of the memfd
  // On kPrepare: size of the buffer, on device cpu the most that outputs may take.
  uint64_t output_buffer_bytes;
  CallStatus status;      // on kReply
  uint32_t flags;         // RecordFlags
  uint32_t tensor_count;  // used entries of `tensors`
  uint32_t text_bytes;    // used bytes of `text`
  // kCall: the arguments, a tuple. kReply with kOk: the outputs. Grammar (no blanks):
  //   value := 'T'                      the next tensor of `tensors`
  //          | 'N'                      None
  //          | 'B' ('0' | '1')          bool
  //          | 'I' decimal ';'          int of 64 bits
  //          | 'F' 16 hex digits        float, the bits of a double
  //          | 'S' decimal ':' bytes    str in UTF-8
  //          | '(' value* ')'           tuple
  //          | '[' value* ']'           list
  //          | '{' (key value)* '}'     dict in its own order; keys are 'S' or 'I'
  char text[kTextBytesMax];
  TensorSpec tensors[kTensorsMax];
};

static_assert(std::is_trivially_copyable_v<CallRecord>);
static_assert(sizeof(TensorSpec) == 16 + 16 * kDimsMax);
static_assert(sizeof(CallRecord) == 72 + kTextBytesMax + sizeof(TensorSpec) * kTensorsMax);

}  // namespace pike::gpu
