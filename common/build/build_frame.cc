#include "common/build/build_frame.h"

#include <utility>
#include <vector>

#include <absl/strings/escaping.h>
#include <absl/strings/str_cat.h>
#include <nlohmann/json.hpp>

#include "common/base/status_macros.h"
#include "common/base/text.h"

namespace pike::build {
namespace {

using nlohmann::json;

// What the candidate sees of a failed build; the whole capped text is in the evidence. Short, so
// that the traceback it ends up in is not cut.
constexpr size_t kMessageBytesMax = 1200;

const json* Find(const json& object, const char* name) {
  if (!object.is_object())
    return nullptr;
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

absl::StatusOr<std::string> StringField(const json& object, const char* name) {
  const json* value = Find(object, name);
  if (value == nullptr || !value->is_string())
    return absl::InvalidArgumentError(absl::StrCat("build frame without \"", name, "\""));
  return value->get<std::string>();
}

absl::StatusOr<std::vector<std::string>> StringList(const json& object, const char* name) {
  std::vector<std::string> list;
  const json* value = Find(object, name);
  if (value == nullptr)
    return list;
  if (!value->is_array() || value->size() > kBuildFlagsMax)
    return absl::InvalidArgumentError(absl::StrCat("malformed \"", name, "\" in a build frame"));
  for (const json& item : *value) {
    if (!item.is_string())
      return absl::InvalidArgumentError(absl::StrCat("malformed \"", name, "\" in a build frame"));
    list.push_back(item.get<std::string>());
  }
  return list;
}

absl::StatusOr<std::vector<BuildFile>> FileList(const json& object, const char* name) {
  std::vector<BuildFile> files;
  const json* value = Find(object, name);
  if (value == nullptr)
    return files;
  if (!value->is_array() || value->size() > kBuildFilesMax)
    return absl::InvalidArgumentError(absl::StrCat("too many \"", name, "\" in a build frame"));
  for (const json& item : *value) {
    BuildFile file;
    ASSIGN_OR_RETURN(file.name, StringField(item, "name"));
    ASSIGN_OR_RETURN(const std::string encoded, StringField(item, "base64"));
    if (!absl::Base64Unescape(encoded, &file.contents))
      return absl::InvalidArgumentError(absl::StrCat("malformed \"", name, "\" in a build frame"));
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<ArtifactKind> KindField(const json& frame) {
  ASSIGN_OR_RETURN(const std::string kind, StringField(frame, "kind"));
  if (kind == "library")
    return ArtifactKind::kLibrary;
  if (kind == "executable")
    return ArtifactKind::kExecutable;
  return absl::InvalidArgumentError("unknown \"kind\" in a build frame");
}

json Reply(uint64_t frame_id, bool is_ok) {
  return json{{"type", "build_reply"}, {"id", frame_id}, {"ok", is_ok}};
}

void AppendOutput(const CappedOutput& output, std::string* text) {
  if (output.bytes_total == 0)
    return;
  absl::StrAppend(text, "\n", EscapeUntrusted(output.head, output.head.size()));
  const uint64_t kept = output.head.size() + output.tail.size();
  if (output.bytes_total > kept)
    absl::StrAppend(text, "\n[", output.bytes_total - kept, " bytes left out]\n");
  absl::StrAppend(text, EscapeUntrusted(output.tail, output.tail.size()));
}

}  // namespace

absl::StatusOr<BuildRequest> BuildRequestFromFrame(const json& frame) {
  BuildRequest request;
  ASSIGN_OR_RETURN(request.name, StringField(frame, "name"));
  ASSIGN_OR_RETURN(request.kind, KindField(frame));
  const json* with_cuda = Find(frame, "with_cuda");
  request.with_cuda = with_cuda != nullptr && with_cuda->is_boolean() && with_cuda->get<bool>();
  ASSIGN_OR_RETURN(request.sources, FileList(frame, "sources"));
  ASSIGN_OR_RETURN(request.headers, FileList(frame, "headers"));
  ASSIGN_OR_RETURN(request.cflags, StringList(frame, "cflags"));
  ASSIGN_OR_RETURN(request.cuda_cflags, StringList(frame, "cuda_cflags"));
  ASSIGN_OR_RETURN(request.ldflags, StringList(frame, "ldflags"));
  ASSIGN_OR_RETURN(request.include_paths, StringList(frame, "include_paths"));
  RETURN_IF_ERROR(CheckBuildRequest(request));
  return request;
}

uint64_t BuildFrameId(const json& frame) {
  const json* id = Find(frame, "id");
  return id != nullptr && id->is_number_integer() ? id->get<uint64_t>() : 0;
}

json BuildReplyFrame(uint64_t frame_id, const BuildOutcome& outcome) {
  if (outcome.artifact != nullptr)
    return Reply(frame_id, true);
  return BuildRefusedFrame(
      frame_id, outcome.failure == nullptr ? "no artifact" : BuildFailureText(*outcome.failure));
}

json BuildRefusedFrame(uint64_t frame_id, absl::string_view message) {
  json reply = Reply(frame_id, false);
  reply["message"] = EscapeUntrusted(message, kMessageBytesMax);
  return reply;
}

std::string BuildFailureText(const BuildFailure& failure) {
  std::string text = absl::StrCat(failure.tool, ": ", EscapeLine(failure.first_error));
  AppendOutput(failure.stderr_text, &text);
  AppendOutput(failure.stdout_text, &text);
  return text;
}

}  // namespace pike::build
