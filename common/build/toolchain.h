#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

namespace pike::build {

// Versions that decide whether a built extension can be loaded and whether two builds of the same
// bytes agree. A field is empty where the thing is absent.
struct Toolchain {
  std::string python_abi;          // "cpython-311"
  std::string torch_version;       // "2.11.0+cu130"
  std::string triton_version;      // "3.6.0"
  std::string torch_cuda_version;  // CUDA that torch was built for, "13.0"
  std::string nvcc_version;        // "13.0.88"
  std::string gxx_version;         // "12.2.0"
  std::string libc;                // "glibc-2.36"

  // SHA-256 in hex over what a built extension must match to load: Python ABI, torch, its CUDA and
  // libc.
  std::string RuntimeDigest() const;
  // SHA-256 in hex over every field above.
  std::string Digest() const;
};

// Where the toolchain lies on this machine. Not part of any digest. Absolute paths.
struct ToolchainPaths {
  std::string python;                      // the interpreter, as given
  std::string python_prefix;               // sys.prefix (a virtual environment's own folder)
  std::string python_base_prefix;          // sys.base_prefix
  std::string python_include;              // folder of Python.h
  std::string torch_dir;                   // folder of torch/__init__.py
  std::vector<std::string> site_packages;  // folders with packages, in sys.path order
  std::string gxx;                         // empty: no C++ compiler
  std::string cuda_home;                   // empty: no nvcc
  // What cuda_home's links point to, itself included; every folder here must be visible in a
  // sandbox that runs nvcc.
  std::vector<std::string> cuda_dirs;
};

struct ProbedToolchain {
  Toolchain toolchain;
  ToolchainPaths paths;

  bool can_build() const { return !paths.gxx.empty(); }
  bool can_build_cuda() const { return can_build() && !paths.cuda_home.empty(); }
};

struct ProbeOptions {
  std::string python;     // interpreter with torch
  std::string share_dir;  // folder that holds inside/probe.py
  std::string cache_dir;  // a CUDA_HOME of links is made in it where nvcc comes from PyPI packages
};

// Runs probe.py with `options.python`, outside any sandbox (the interpreter is the operator's, no
// candidate is near), and looks for g++ and nvcc. Takes a fraction of a second: torch
// is not imported. Call it before other children are started.
// NotFound: no such interpreter. FailedPrecondition: it has no torch; the message says what to do.
// CUDA_HOME is looked for in this order: $CUDA_HOME, /usr/local/cuda, nvcc of the PyPI package
// `cuda-toolkit[nvcc,cccl,crt,nvvm]` in the interpreter's site-packages.
absl::StatusOr<ProbedToolchain> ProbeToolchain(const ProbeOptions& options);

// The folder that holds `inside/`: $PIKE_SHARE_DIR, else ../share/pike beside the running binary's
// folder, else the source tree this binary was built from.
absl::StatusOr<std::string> FindShareDir();

// Pure half of ProbeToolchain, for tests: turns probe.py's JSON into a toolchain.
absl::StatusOr<ProbedToolchain> ParseProbe(absl::string_view json);

}  // namespace pike::build
