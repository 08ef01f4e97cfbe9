#include "gpu_worker/supervisor/json_frame.h"

#include <algorithm>
#include <limits>

namespace pike::gpu {
namespace {

const nlohmann::json* Find(const nlohmann::json& frame, const char* name) {
  if (!frame.is_object())
    return nullptr;
  const auto found = frame.find(name);
  return found == frame.end() ? nullptr : &*found;
}

// Whether arrays and objects are nested deeper than any frame of ours: several functions of the
// library recurse.
bool IsTooDeep(absl::string_view bytes) {
  int depth = 0;
  bool is_in_string = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (is_in_string && c == '\\')
      ++i;
    else if (c == '"')
      is_in_string = !is_in_string;
    else if (!is_in_string && (c == '[' || c == '{') && ++depth > kFrameDepthMax)
      return true;
    else if (!is_in_string && (c == ']' || c == '}'))
      --depth;
  }
  return false;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseFrame(absl::string_view bytes) {
  if (IsTooDeep(bytes))
    return absl::InvalidArgumentError("not a frame: nested too deeply");
  nlohmann::json frame = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr,
                                               /*allow_exceptions=*/false);
  if (!frame.is_object() || !frame.contains("type") || !frame["type"].is_string())
    return absl::InvalidArgumentError("not a frame");
  return frame;
}

absl::Status SendFrame(sandbox::FrameChannel* channel, const nlohmann::json& frame,
                       const std::vector<int>& fds, MonoTime deadline) {
  // Text of a candidate may not be UTF-8: replaced, never thrown about.
  return channel->Send(frame.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), fds,
                       deadline);
}

std::string TextOf(const nlohmann::json& frame, const char* name) {
  const nlohmann::json* value = Find(frame, name);
  if (value == nullptr || !value->is_string())
    return "";
  return value->get_ref<const std::string&>().substr(0, kFrameTextBytesMax);
}

double NumberOf(const nlohmann::json& value) {
  if (value.is_number())
    return value.get<double>();
  if (!value.is_string())
    return 0;
  const std::string& text = value.get_ref<const std::string&>();
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf")
    return std::numeric_limits<double>::infinity();
  if (text == "-inf")
    return -std::numeric_limits<double>::infinity();
  return 0;
}

double NumberOf(const nlohmann::json& frame, const char* name) {
  const nlohmann::json* value = Find(frame, name);
  return value == nullptr ? 0 : NumberOf(*value);
}

uint64_t CountOf(const nlohmann::json& frame, const char* name) {
  const nlohmann::json* value = Find(frame, name);
  if (value == nullptr || !value->is_number_integer())
    return 0;
  if (value->is_number_unsigned())
    return value->get<uint64_t>();
  return static_cast<uint64_t>(std::max<int64_t>(0, value->get<int64_t>()));
}

bool FlagOf(const nlohmann::json& frame, const char* name) {
  const nlohmann::json* value = Find(frame, name);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

const nlohmann::json& MemberOf(const nlohmann::json& frame, const char* name) {
  static const nlohmann::json kNone = nlohmann::json::object();
  const nlohmann::json* value = Find(frame, name);
  return value != nullptr && (value->is_object() || value->is_array()) ? *value : kNone;
}

}  // namespace pike::gpu
