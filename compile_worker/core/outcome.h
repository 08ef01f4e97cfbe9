#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pike::compile_worker {

// How one extension the candidate asked for ended.
enum class BuildResult : uint8_t {
  kBuilt,         // built or reused
  kCompileError,  // a tool failed, or the request broke a bound
  kTimeout,       // its own deadline passed
  kOutOfMemory,   // its memory limit ended it
  kInfra,         // nothing is known about the candidate
};

struct BuildFact {
  std::string name;
  BuildResult result = BuildResult::kBuilt;
  std::string first_error;  // one line
  std::string file;
  uint32_t line = 0;
};

// What the candidate's process reported before it ended. Untrusted: it harms only the candidate.
enum class ImportReport : uint8_t {
  kNone,         // it ended, or was ended, without a word
  kLoaded,       // the import succeeded
  kNotPython,    // found before any of its code ran
  kNoEntry,      // defines neither ModelNew nor Model
  kImportError,  // its import raised
  kHarness,      // it says that our own code in the sandbox failed; anything in there can say so
};

// What was observed of one import.
struct ImportFacts {
  ImportReport report = ImportReport::kNone;
  std::string error_type;  // of kNotPython, kNoEntry and kImportError
  std::string error_text;
  bool is_timed_out = false;  // the compile stage's deadline passed
  bool is_memory_limit_hit = false;
  int exit_status = 0;
  int signal = 0;
  std::vector<BuildFact> builds;
};

// What the compile stage concludes.
enum class Conclusion : uint8_t {
  kCompiled,      // the import succeeded
  kInconclusive,  // it failed in a way that a GPU may cure: the GPU worker decides
  kUnparsable,    // final
  kLoadError,     // final
  kTimeout,       // final: a build ran out of its own time and the import failed with it
  kOutOfMemory,   // final: the same for memory
  kInfra,         // nothing was decided; another attempt may
};

struct Outcome {
  Conclusion conclusion = Conclusion::kInfra;
  std::string reason;  // one line; empty for kCompiled
};

// The rules of the compile stage. Final is only what no GPU can cure: a source that is not Python
// or has no entry, and an import that raised because a build failed. A candidate whose build failed
// but which raised for another reason may have fallen back to something that needs a GPU, so that
// is left to the GPU worker, as is every death and deadline. Pure.
Outcome Conclude(const ImportFacts& facts);

}  // namespace pike::compile_worker
