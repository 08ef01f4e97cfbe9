#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/sandbox/frame_channel.h"

namespace pike::gpu {

// Text of a sandbox is cut here again, whatever its sender did.
inline constexpr size_t kFrameTextBytesMax = 8192;
inline constexpr int kFrameDepthMax = 32;

// A frame as an object with a string "type". InvalidArgument for anything else. Safe on hostile
// bytes.
absl::StatusOr<nlohmann::json> ParseFrame(absl::string_view bytes);

absl::Status SendFrame(sandbox::FrameChannel* channel, const nlohmann::json& frame,
                       const std::vector<int>& fds, MonoTime deadline);

// Fields of a frame that nobody vouches for; a missing or mistyped one gives the default.
std::string TextOf(const nlohmann::json& frame, const char* name);  // cut at kFrameTextBytesMax
double NumberOf(const nlohmann::json& frame, const char* name);     // "nan", "inf", "-inf" too
uint64_t CountOf(const nlohmann::json& frame, const char* name);    // 0 if negative
bool FlagOf(const nlohmann::json& frame, const char* name);
// An object or array member; an empty object if there is none.
const nlohmann::json& MemberOf(const nlohmann::json& frame, const char* name);
double NumberOf(const nlohmann::json& value);

}  // namespace pike::gpu
