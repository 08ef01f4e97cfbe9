#pragma once

#include <string>
#include <vector>

namespace pike::cli {

// One thing `pike doctor` looked for.
struct Finding {
  enum class State { kOk, kMissing, kOptional };  // optional: absent, and pike works without it

  std::string what;
  State state = State::kOk;
  std::string detail;  // what is there
  std::string fix;     // one line; empty if it is there
};

Finding Ok(std::string what, std::string detail);
Finding Missing(std::string what, std::string detail, std::string fix);
Finding Optional(std::string what, std::string detail, std::string fix);

struct DoctorOptions {
  std::string python;       // as for `pike up`
  std::string runtime_dir;  // as for `pike up`
  std::string service;      // as for clients
};

// Looks at this machine. Takes some seconds: it imports torch and tries a sandbox.
std::vector<Finding> Examine(const DoctorOptions& options);

// One line per finding, missing things first; the last line sums up.
std::string RenderFindings(const std::vector<Finding>& findings);

// Whether nothing that pike needs is missing.
bool IsHealthy(const std::vector<Finding>& findings);

}  // namespace pike::cli
