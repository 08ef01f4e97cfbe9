#include "common/build/build_plan.h"

#include <algorithm>
#include <utility>

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/strip.h>

namespace pike::build {
namespace {

// From compute capability 9.0 on there is code for one exact architecture.
constexpr int kArchSpecificMajorMin = 9;

bool IsCudaFile(absl::string_view name) {
  return absl::EndsWith(name, ".cu") || absl::EndsWith(name, ".cuh");
}

void Append(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

std::vector<std::string> SplitAll(const std::vector<std::string>& flags) {
  std::vector<std::string> words;
  for (const std::string& flag : flags)
    Append(SplitShellWords(flag), &words);
  return words;
}

std::vector<std::string> CommonFlags(const BuildRequest& request, const ToolchainPaths& paths) {
  std::vector<std::string> flags;
  if (request.kind != ArtifactKind::kExecutable) {
    flags.push_back(absl::StrCat("-DTORCH_EXTENSION_NAME=", request.name));
    flags.push_back("-DTORCH_API_INCLUDE_EXTENSION_H");
  }
  for (const std::string& path : request.include_paths)
    flags.push_back(absl::StrCat("-I", path));
  std::vector<std::string> system = {
      absl::StrCat(paths.torch_dir, "/include"),
      absl::StrCat(paths.torch_dir, "/include/torch/csrc/api/include")};
  if (request.with_cuda)
    system.push_back(absl::StrCat(paths.cuda_home, "/include"));
  system.push_back(paths.python_include);
  for (const std::string& path : system) {
    flags.push_back("-isystem");
    flags.push_back(path);
  }
  return flags;
}

// Whether a source uses what only code for one exact architecture ("sm_90a") may use.
bool NeedsArchSpecifics(const std::vector<BuildFile>& sources,
                        const std::vector<BuildFile>& headers) {
  for (const auto* files : {&sources, &headers}) {
    for (const BuildFile& file : *files) {
      for (const char* word : {"wgmma", "setmaxnreg", "sm_90a", "SM90_ALL", "tcgen05", "GMMA"}) {
        if (absl::StrContains(file.contents, word))
          return true;
      }
    }
  }
  return false;
}

std::vector<std::string> ArchFlags(const BuildRequest& request, absl::string_view arch) {
  for (const std::string& flag : request.cuda_cflags) {
    if (absl::StrContains(flag, "TORCH_EXTENSION_NAME"))
      continue;
    if (absl::StrContains(flag, "arch"))
      return {};  // the candidate chose, as with stock torch
  }
  if (absl::ConsumePrefix(&arch, "sm_"))
    return {absl::StrCat("-gencode=arch=compute_", arch, ",code=sm_", arch)};
  const std::vector<absl::string_view> parts = absl::StrSplit(arch, '.');
  const bool needs_specifics = NeedsArchSpecifics(request.sources, request.headers);
  int major = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &major)) {
    if (needs_specifics)
      return {"-gencode=arch=compute_90a,code=sm_90a"};
    return {"-gencode=arch=compute_90,code=compute_90", "-gencode=arch=compute_90,code=sm_90"};
  }
  const char* variant = major >= kArchSpecificMajorMin && needs_specifics ? "a" : "";
  const std::string number = absl::StrCat(parts[0], parts[1], variant);
  return {absl::StrCat("-gencode=arch=compute_", number, ",code=sm_", number)};
}

std::vector<std::string> CudaFlags(const BuildRequest& request, const ToolchainPaths& paths,
                                   absl::string_view arch) {
  std::vector<std::string> flags = CommonFlags(request, paths);
  Append({"-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__",
          "-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__",
          "--expt-relaxed-constexpr"},
         &flags);
  Append(ArchFlags(request, arch), &flags);
  Append({"--compiler-options", "-fPIC"}, &flags);
  const std::vector<std::string> extra = SplitAll(request.cuda_cflags);
  Append(extra, &flags);
  const bool has_standard = std::any_of(extra.begin(), extra.end(), [](const std::string& flag) {
    return absl::StartsWith(flag, "-std=");
  });
  if (!has_standard)
    flags.push_back("-std=c++17");
  return flags;
}

// "dir/main.cpp" -> "obj/dir.main.o". Sources that differ only in their ending or folder get
// different objects; stock torch would let one overwrite the other.
std::string ObjectName(const std::string& source, size_t index) {
  std::string stem = source;
  std::replace(stem.begin(), stem.end(), '/', '.');
  return absl::StrCat("obj/", index, ".", stem, ".o");
}

std::vector<std::string> LinkFlags(const BuildRequest& request, const ToolchainPaths& paths) {
  std::vector<std::string> flags;
  const bool is_executable = request.kind == ArtifactKind::kExecutable;
  if (!is_executable)
    flags.push_back("-shared");
  Append(SplitAll(request.ldflags), &flags);
  flags.push_back(absl::StrCat("-L", paths.torch_dir, "/lib"));
  flags.push_back("-lc10");
  if (request.with_cuda)
    flags.push_back("-lc10_cuda");
  flags.push_back("-ltorch_cpu");
  if (request.with_cuda)
    flags.push_back("-ltorch_cuda");
  flags.push_back("-ltorch");
  if (is_executable)
    flags.push_back(absl::StrCat("-Wl,-rpath,", paths.torch_dir, "/lib"));
  else
    flags.push_back("-ltorch_python");
  if (request.with_cuda) {
    flags.push_back(absl::StrCat("-L", paths.cuda_home, "/lib64"));
    flags.push_back("-lcudart");
  }
  return flags;
}

}  // namespace

std::vector<std::string> SplitShellWords(absl::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool has_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_escaping = c == '\\' && quote != '\'' && i + 1 < text.size();
    if (is_escaping && (quote == 0 || text[i + 1] == '"' || text[i + 1] == '\\')) {
      word.push_back(text[++i]);
      has_word = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word.push_back(c);
    } else if (c == '\'' || c == '"') {
      quote = c;
      has_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (has_word)
        words.push_back(std::exchange(word, std::string()));
      has_word = false;
    } else {
      word.push_back(c);
      has_word = true;
    }
  }
  if (has_word)
    words.push_back(std::move(word));
  return words;
}

BuildPlan MakeBuildPlan(const BuildRequest& request, const ToolchainPaths& paths,
                        absl::string_view arch) {
  BuildPlan plan;
  std::vector<std::string> objects;
  for (const BuildFile& source : request.sources) {
    BuildStep step;
    step.source = source.name;
    const std::string object = ObjectName(source.name, objects.size());
    if (request.with_cuda && IsCudaFile(source.name)) {
      step.tool = "nvcc";
      step.argv.push_back(absl::StrCat(paths.cuda_home, "/bin/nvcc"));
      Append(CudaFlags(request, paths, arch), &step.argv);
    } else {
      step.tool = "g++";
      step.argv.push_back(paths.gxx);
      Append(CommonFlags(request, paths), &step.argv);
      Append({"-fPIC", "-std=c++17"}, &step.argv);
      Append(SplitAll(request.cflags), &step.argv);
    }
    Append({"-c", source.name, "-o", object}, &step.argv);
    objects.push_back(object);
    plan.steps.push_back(std::move(step));
  }
  plan.output = request.kind == ArtifactKind::kExecutable ? "out/artifact" : "out/artifact.so";
  BuildStep link;
  link.tool = "link";
  link.argv.push_back(paths.gxx);
  Append(objects, &link.argv);
  Append(LinkFlags(request, paths), &link.argv);
  Append({"-o", plan.output}, &link.argv);
  plan.steps.push_back(std::move(link));
  return plan;
}

}  // namespace pike::build
