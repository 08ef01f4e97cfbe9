#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace pike::build {

// What is linked.
enum class ArtifactKind : uint8_t {
  kLibrary = 0,     // a Python module, or a library that registers operators when loaded
  kExecutable = 1,  // a program
};

// One file of a request. `name` is relative, of plain characters, without "..": files that lie in
// sub-folders keep them ("include0/tile.h"). The name is what diagnostics show ("cuda.cu").
struct BuildFile {
  std::string name;
  std::string contents;
  friend bool operator==(const BuildFile&, const BuildFile&) = default;
};

// One extension as torch.utils.cpp_extension was asked for it, bytes and flags and nothing else: no
// time stamps, no folders of the asking sandbox. Everything in it comes from a candidate.
struct BuildRequest {
  std::string name;  // Python identifier, also the value of TORCH_EXTENSION_NAME
  ArtifactKind kind = ArtifactKind::kLibrary;
  bool with_cuda = false;
  std::vector<BuildFile> sources;  // compiled, in this order
  std::vector<BuildFile> headers;  // beside the sources or under include paths, not compiled
  std::vector<std::string> cflags;
  std::vector<std::string> cuda_cflags;
  std::vector<std::string> ldflags;
  // Absolute (must be part of the toolchain to be found) or relative to the request's own files.
  std::vector<std::string> include_paths;
  friend bool operator==(const BuildRequest&, const BuildRequest&) = default;
};

inline constexpr size_t kBuildFilesMax = 64;              // sources and headers
inline constexpr size_t kBuildFileBytesMax = 1 << 20;     // each
inline constexpr size_t kBuildRequestBytesMax = 4 << 20;  // all files and flags together
inline constexpr size_t kBuildFlagsMax = 256;             // of each kind
inline constexpr size_t kBuildFlagBytesMax = 4096;        // each
inline constexpr size_t kBuildFlagsBytesMax = 64 << 10;   // all of them: they are one command line
inline constexpr size_t kBuildFlagWordsMax = 2048;        // the same, split as a shell would

// InvalidArgument, with a line for the candidate, if a bound or rule above is broken.
absl::Status CheckBuildRequest(const BuildRequest& request);

// Canonical bytes: equal requests give equal bytes. Format: "pike-build-1\n", then each field as
// little-endian u32 length and bytes (lists: u32 count first).
std::string SerializeBuildRequest(const BuildRequest& request);
// Reads them back. InvalidArgument for anything SerializeBuildRequest could not have written and
// for requests that CheckBuildRequest refuses. Safe on hostile bytes.
absl::StatusOr<BuildRequest> ParseBuildRequest(absl::string_view bytes);

// Names a build: SHA-256 in hex over exact sources, flags, name, toolchain and architecture.
//
// The extension's name is part of it because it is compiled in: TORCH_EXTENSION_NAME decides the
// exported PyInit_<name>, the module's __name__ and the namespace of operators registered under it.
// An artifact could only be shared between names by renaming symbols in it; equal code under
// different names is too rare for that.
std::string BuildKey(const BuildRequest& request, absl::string_view toolchain_digest,
                     absl::string_view arch);

}  // namespace pike::build
