#include "common/build/build_request.h"

#include <algorithm>
#include <set>

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/build/build_plan.h"

namespace pike::build {
namespace {

constexpr absl::string_view kMagic = "pike-build-1\n";
constexpr size_t kNameBytesMax = 128;
constexpr size_t kFileNameBytesMax = 200;

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsIdentifier(absl::string_view text) {
  if (text.empty() || text.size() > kNameBytesMax || (text[0] >= '0' && text[0] <= '9'))
    return false;
  return std::all_of(text.begin(), text.end(), IsWordCharacter);
}

// Relative, without "." or ".." parts, of characters that need no quoting anywhere.
bool IsPlainRelativePath(absl::string_view path) {
  if (path.empty() || path.size() > kFileNameBytesMax)
    return false;
  for (absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part[0] == '.' || part[0] == '-')
      return false;
    for (char c : part) {
      if (!IsWordCharacter(c) && c != '.' && c != '-' && c != '+')
        return false;
    }
  }
  return true;
}

absl::Status CheckFiles(const std::vector<BuildFile>& files, std::set<std::string>* names,
                        size_t* bytes) {
  for (const BuildFile& file : files) {
    if (!IsPlainRelativePath(file.name))
      return absl::InvalidArgumentError("a source file has a name that is not allowed");
    if (!names->insert(file.name).second)
      return absl::InvalidArgumentError(absl::StrCat("two source files named ", file.name));
    const std::string root = file.name.substr(0, file.name.find('/'));
    if (root == "obj" || root == "out")
      return absl::InvalidArgumentError(
          absl::StrCat(file.name, ": this folder is the build's own"));
    if (file.contents.size() > kBuildFileBytesMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.name, " is larger than ", kBuildFileBytesMax, " bytes"));
    }
    *bytes += file.contents.size();
  }
  return absl::OkStatus();
}

// A name that is a file and a folder of others could not be laid out.
absl::Status CheckFolders(const std::set<std::string>& names) {
  for (const std::string& name : names) {
    for (size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      if (names.contains(name.substr(0, slash)))
        return absl::InvalidArgumentError(
            absl::StrCat(name.substr(0, slash), " is a source file and a folder of others"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(absl::string_view what, const std::vector<std::string>& flags,
                        size_t* bytes, size_t* words) {
  if (flags.size() > kBuildFlagsMax)
    return absl::InvalidArgumentError(absl::StrCat("more than ", kBuildFlagsMax, " ", what));
  for (const std::string& flag : flags) {
    if (flag.size() > kBuildFlagBytesMax || flag.find('\0') != std::string::npos)
      return absl::InvalidArgumentError(absl::StrCat("one of the ", what, " is not allowed"));
    *bytes += flag.size();
    *words += SplitShellWords(flag).size();
  }
  return absl::OkStatus();
}

void PutNumber(size_t value, std::string* out) {
  for (int shift = 0; shift < 32; shift += 8)
    out->push_back(static_cast<char>((value >> shift) & 0xff));
}

void PutBytes(absl::string_view bytes, std::string* out) {
  PutNumber(bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

void PutList(const std::vector<std::string>& list, std::string* out) {
  PutNumber(list.size(), out);
  for (const std::string& item : list)
    PutBytes(item, out);
}

void PutFiles(const std::vector<BuildFile>& files, std::string* out) {
  PutNumber(files.size(), out);
  for (const BuildFile& file : files) {
    PutBytes(file.name, out);
    PutBytes(file.contents, out);
  }
}

// Reads what the Put functions wrote. After the first malformed field every read gives nothing and
// is_good() is false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : rest_(bytes) {}

  bool is_good() const { return is_good_; }
  bool is_at_end() const { return rest_.empty(); }

  size_t Number() {
    if (rest_.size() < 4) {
      is_good_ = false;
      rest_ = {};
      return 0;
    }
    size_t value = 0;
    for (size_t i = 0; i < 4; ++i)
      value |= static_cast<size_t>(static_cast<unsigned char>(rest_[i])) << (8 * i);
    rest_.remove_prefix(4);
    return value;
  }

  std::string Bytes() {
    const size_t size = Number();
    if (size > rest_.size()) {
      is_good_ = false;
      rest_ = {};
      return "";
    }
    std::string bytes(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return bytes;
  }

  std::vector<std::string> List() {
    std::vector<std::string> list;
    for (size_t left = Count(kBuildFlagsMax); left > 0 && is_good_; --left)
      list.push_back(Bytes());
    return list;
  }

  std::vector<BuildFile> Files() {
    std::vector<BuildFile> files;
    for (size_t left = Count(kBuildFilesMax); left > 0 && is_good_; --left) {
      BuildFile file;
      file.name = Bytes();
      file.contents = Bytes();
      files.push_back(std::move(file));
    }
    return files;
  }

 private:
  size_t Count(size_t max) {
    const size_t count = Number();
    if (count > max)
      is_good_ = false;
    return count;
  }

  absl::string_view rest_;
  bool is_good_ = true;
};

}  // namespace

absl::Status CheckBuildRequest(const BuildRequest& request) {
  if (!IsIdentifier(request.name))
    return absl::InvalidArgumentError("the extension's name is not a plain identifier");
  if (request.sources.empty())
    return absl::InvalidArgumentError("the extension has no sources");
  if (request.sources.size() + request.headers.size() > kBuildFilesMax)
    return absl::InvalidArgumentError(absl::StrCat("more than ", kBuildFilesMax, " source files"));
  std::set<std::string> names;
  size_t bytes = 0;
  RETURN_IF_ERROR(CheckFiles(request.sources, &names, &bytes));
  RETURN_IF_ERROR(CheckFiles(request.headers, &names, &bytes));
  RETURN_IF_ERROR(CheckFolders(names));
  size_t flag_bytes = 0;
  size_t words = 0;
  RETURN_IF_ERROR(CheckFlags("compiler flags", request.cflags, &flag_bytes, &words));
  RETURN_IF_ERROR(CheckFlags("CUDA compiler flags", request.cuda_cflags, &flag_bytes, &words));
  RETURN_IF_ERROR(CheckFlags("linker flags", request.ldflags, &flag_bytes, &words));
  RETURN_IF_ERROR(CheckFlags("include paths", request.include_paths, &flag_bytes, &words));
  if (flag_bytes > kBuildFlagsBytesMax || words > kBuildFlagWordsMax)
    return absl::InvalidArgumentError(absl::StrCat("more than ", kBuildFlagsBytesMax, " bytes or ",
                                                   kBuildFlagWordsMax, " words of flags"));
  bytes += flag_bytes;
  if (bytes > kBuildRequestBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("sources and flags are larger than ", kBuildRequestBytesMax, " bytes"));
  }
  return absl::OkStatus();
}

std::string SerializeBuildRequest(const BuildRequest& request) {
  std::string out(kMagic);
  PutBytes(request.name, &out);
  PutNumber(static_cast<size_t>(request.kind), &out);
  PutNumber(request.with_cuda ? 1 : 0, &out);
  PutFiles(request.sources, &out);
  PutFiles(request.headers, &out);
  PutList(request.cflags, &out);
  PutList(request.cuda_cflags, &out);
  PutList(request.ldflags, &out);
  PutList(request.include_paths, &out);
  return out;
}

absl::StatusOr<BuildRequest> ParseBuildRequest(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kMagic))
    return absl::InvalidArgumentError("not a build request");
  Reader reader(bytes.substr(kMagic.size()));
  BuildRequest request;
  request.name = reader.Bytes();
  const size_t kind = reader.Number();
  const size_t with_cuda = reader.Number();
  request.sources = reader.Files();
  request.headers = reader.Files();
  request.cflags = reader.List();
  request.cuda_cflags = reader.List();
  request.ldflags = reader.List();
  request.include_paths = reader.List();
  if (!reader.is_good() || !reader.is_at_end() || with_cuda > 1 ||
      kind > static_cast<size_t>(ArtifactKind::kExecutable)) {
    return absl::InvalidArgumentError("malformed build request");
  }
  request.kind = static_cast<ArtifactKind>(kind);
  request.with_cuda = with_cuda == 1;
  RETURN_IF_ERROR(CheckBuildRequest(request));
  return request;
}

std::string BuildKey(const BuildRequest& request, absl::string_view toolchain_digest,
                     absl::string_view arch) {
  std::string bytes = SerializeBuildRequest(request);
  PutBytes(toolchain_digest, &bytes);
  // Code without CUDA does not depend on the device it will run beside.
  PutBytes(request.with_cuda ? arch : "", &bytes);
  return Sha256Hex(bytes);
}

}  // namespace pike::build
