#pragma once

#include <string>

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <nlohmann/json_fwd.hpp>

#include "common/build/build_outcome.h"
#include "common/build/build_request.h"

namespace pike::build {

// The frames of common/inside/build_hook.py. The sandbox sends
//   {"type": "build", "id": 7, "name": "ext", "kind": "library" | "executable",
//    "with_cuda": false, "sources": [{"name": "main.cpp", "base64": "..."}], "headers": [...],
//    "cflags": [...], "cuda_cflags": [...], "ldflags": [...], "include_paths": [...]}
// and gets, with the artifact as the only descriptor of the message where `ok` is true,
//   {"type": "build_reply", "id": 7, "ok": true} or
//   {"type": "build_reply", "id": 7, "ok": false, "message": "<text of the tools, the start of
//   it>"}.

// A request as it came from a sandbox. InvalidArgument, with a line for the candidate, if it is
// malformed or out of bounds: answer with RefusedReply. Safe on hostile values.
absl::StatusOr<BuildRequest> BuildRequestFromFrame(const nlohmann::json& frame);
// The frame's "id", 0 if it has none.
uint64_t BuildFrameId(const nlohmann::json& frame);

// Reply to `frame_id`. Where `outcome` has an artifact, send its OpenSealed() with it.
nlohmann::json BuildReplyFrame(uint64_t frame_id, const BuildOutcome& outcome);
// Reply that no build was made, with a line for the candidate. Also for infrastructure errors.
nlohmann::json BuildRefusedFrame(uint64_t frame_id, absl::string_view message);

// A failure's text for people: first error, then the capped output of the tool.
std::string BuildFailureText(const BuildFailure& failure);

}  // namespace pike::build
