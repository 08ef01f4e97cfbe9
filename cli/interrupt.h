#pragma once

namespace pike::cli {

// Counts SIGINT and SIGTERM from its construction on: the first one is for the caller to act on,
// the second ends the process at once with status 130. At most one instance per process.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool is_requested() const;
};

}  // namespace pike::cli
