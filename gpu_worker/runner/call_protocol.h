#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

// The records between judge and runner, over a socketpair(AF_UNIX, SOCK_SEQPACKET). Both sides live
// on one machine, so integers are in its byte order. Every record has exactly sizeof(CallRecord)
// bytes; whatever has another size is a violation. Standard library only: the runner's harness is
// built apart from the rest.
//
//   judge -> runner   kCall: calls the candidate once. With kHasBuffers two descriptors come along
//                     (SCM_RIGHTS): the buffer with the inputs and the buffer for the outputs. They
//                     replace earlier ones. With kDeviceBuffers they are allocations in the memory
//                     of the GPU (cuMemExportToShareableHandle), otherwise sealed memfds; on device
//                     cpu the runner can only read the one with the inputs.
//   runner -> judge   kReply: exactly one per kCall, with its nonce.
//
// The judge closes its end when the evaluation is over. A record of the runner that is there before
// its call was released, a wrong nonce, kind or size, or a second reply is a violation.
namespace pike::gpu {

inline constexpr uint32_t kCallMagic = 0x4b495031;  // "1PIK"
inline constexpr std::size_t kTensorsMax = 64;
inline constexpr std::size_t kDimsMax = 12;
inline constexpr std::size_t kTextBytesMax = 4096;
inline constexpr uint64_t kBufferAlignment = 64;  // of every tensor's offset in its buffer

enum class RecordKind : uint32_t { kCall = 1, kReply = 2 };

// Outcome of a call as the runner saw it; only kReply carries one.
enum class CallStatus : uint32_t {
  kOk = 0,      // `text` describes the outputs, whose bytes are in the output buffer
  kRaised = 1,  // the candidate raised: `text` is "type\0message and traceback"
  kUnsupported =
      2,          // an output cannot cross (no tensor, other device, sparse ...): `text` says why
  kTooLarge = 3,  // the outputs do not fit into the output buffer: `text` says how large
  kMemory = 4,    // as kRaised, for want of memory
};

enum RecordFlags : uint32_t {
  kHasBuffers = 1,     // on kCall: two descriptors are attached
  kInputMutated = 2,   // on kReply: the candidate changed its private copy of an input
  kDeviceBuffers = 4,  // on kCall, with kHasBuffers: they are memory of the GPU
};

// Where a tensor lies, by DLPack's numbers.
inline constexpr uint32_t kHostTensor = 1;
inline constexpr uint32_t kCudaTensor = 2;

// Element types by DLPack's codes (kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLComplex 5,
// kDLBool 6) and bits.
struct TensorSpec {
  uint8_t type_code;
  uint8_t bits;
  uint8_t dim_count;       // at most kDimsMax
  uint8_t requires_grad;   // inputs only
  uint32_t device_type;    // kHostTensor or kCudaTensor: for an input where it shall be
  uint64_t offset;         // of the first byte in the buffer
  int64_t dims[kDimsMax];  // sizes, outermost first
  // In elements, in the buffer. Inputs: of a dense, not overlapping layout. Outputs: on device cpu
  // they are contiguous in the buffer and strides are not read; on a GPU any that are not negative.
  int64_t strides[kDimsMax];
};

struct CallRecord {
  uint32_t magic;
  RecordKind kind;
  uint64_t nonce;               // random per call; the reply repeats it
  uint64_t rng_seed;            // on kCall: for torch.manual_seed before the call; public
  uint64_t claim_ns;            // on kReply: the runner's own clock around the call
  uint64_t return_ns;           // on kReply, with a GPU: until it returned to the host
  uint64_t input_buffer_bytes;  // on kCall: sizes of both buffers
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
