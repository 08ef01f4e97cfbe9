#include "common/build/toolchain.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include "common/base/digest.h"
#include "common/base/errno_status.h"
#include "common/base/status_macros.h"
#include "common/base/text.h"
#include "common/base/unique_fd.h"

#ifndef PIKE_SOURCE_SHARE_DIR
#define PIKE_SOURCE_SHARE_DIR ""
#endif

extern char** environ;

namespace pike::build {
namespace {

namespace fs = std::filesystem;

constexpr size_t kProbeBytesMax = 1 << 20;

// Each field with its length, so that no two lists of fields give the same bytes.
std::string DigestOf(const std::vector<std::string>& fields) {
  std::string bytes = "pike-toolchain-1\n";
  for (const std::string& field : fields)
    absl::StrAppend(&bytes, field.size(), ":", field, "\n");
  return Sha256Hex(bytes);
}

absl::StatusOr<std::string> ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() <= kProbeBytesMax) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return ErrnoStatus(errno, "read from probe");
    if (count == 0)
      return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return absl::ResourceExhaustedError("the probe prints without end");
}

// Standard output of a trusted program that ends by itself.
absl::StatusOr<std::string> RunProgram(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return ErrnoStatus(errno, "pipe");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writer.get(), STDOUT_FILENO);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return ErrnoStatus(error, absl::StrCat("start ", arguments[0]));
  writer.Reset();
  absl::StatusOr<std::string> text = ReadAll(reader.get());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (text.ok() && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
    return absl::FailedPreconditionError(absl::StrCat(arguments[0], " could not run the probe"));
  return text;
}

bool HasProbe(const fs::path& share_dir) {
  std::error_code error;
  return fs::is_regular_file(share_dir / "inside" / "probe.py", error);
}

}  // namespace

std::string Toolchain::RuntimeDigest() const {
  return DigestOf({python_abi, torch_version, torch_cuda_version, libc});
}

std::string Toolchain::Digest() const {
  return DigestOf({python_abi, torch_version, triton_version, torch_cuda_version, nvcc_version,
                   gxx_version, libc});
}

absl::StatusOr<ProbedToolchain> ParseProbe(absl::string_view json) {
  const nlohmann::json probe = nlohmann::json::parse(json.begin(), json.end(), nullptr,
                                                     /*allow_exceptions=*/false);
  if (!probe.is_object())
    return absl::InternalError("the probe printed no JSON object");
  const auto text = [&probe](const char* name) {
    const auto it = probe.find(name);
    return it != probe.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto list = [&probe](const char* name) {
    std::vector<std::string> items;
    const auto it = probe.find(name);
    if (it == probe.end() || !it->is_array())
      return items;
    for (const nlohmann::json& item : *it) {
      if (item.is_string())
        items.push_back(item.get<std::string>());
    }
    return items;
  };
  if (!text("error").empty())
    return absl::FailedPreconditionError(EscapeLine(text("error")));
  ProbedToolchain probed;
  probed.toolchain = {text("python_abi"),
                      text("torch_version"),
                      text("triton_version"),
                      text("torch_cuda_version"),
                      text("nvcc_version"),
                      text("gxx_version"),
                      text("libc")};
  ToolchainPaths& paths = probed.paths;
  paths.python = text("python");
  paths.python_prefix = text("python_prefix");
  paths.python_base_prefix = text("python_base_prefix");
  paths.python_include = text("python_include");
  paths.torch_dir = text("torch_dir");
  paths.site_packages = list("site_packages");
  paths.gxx = text("gxx");
  paths.cuda_home = text("cuda_home");
  paths.cuda_dirs = list("cuda_dirs");
  if (probed.toolchain.python_abi.empty() || probed.toolchain.torch_version.empty() ||
      paths.python.empty() || paths.torch_dir.empty()) {
    return absl::InternalError("the probe left out a field");
  }
  return probed;
}

absl::StatusOr<ProbedToolchain> ProbeToolchain(const ProbeOptions& options) {
  std::error_code error;
  if (!fs::exists(options.python, error)) {
    return absl::NotFoundError(
        absl::StrCat("no Python at ", options.python, ": name one that has torch with --python"));
  }
  const std::string script = (fs::path(options.share_dir) / "inside" / "probe.py").string();
  ASSIGN_OR_RETURN(const std::string json,
                   RunProgram({options.python, "-s", "-P", script, options.cache_dir}));
  return ParseProbe(json);
}

absl::StatusOr<std::string> FindShareDir() {
  const char* from_environment = std::getenv("PIKE_SHARE_DIR");  // NOLINT(concurrency-mt-unsafe)
  if (from_environment != nullptr && *from_environment != '\0') {
    if (HasProbe(from_environment))
      return std::string(from_environment);
    return absl::NotFoundError(
        absl::StrCat("PIKE_SHARE_DIR=", from_environment, " holds no inside/probe.py"));
  }
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = binary.parent_path().parent_path() / "share" / "pike";
  if (!error && HasProbe(installed))
    return installed.string();
  if (HasProbe(PIKE_SOURCE_SHARE_DIR))
    return std::string(PIKE_SOURCE_SHARE_DIR);
  return absl::NotFoundError(absl::StrCat("no ", installed.string(),
                                          "/inside/probe.py: set PIKE_SHARE_DIR or install again"));
}

}  // namespace pike::build
