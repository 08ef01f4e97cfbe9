#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>

#include "pike/v1/types.pb.h"

namespace pike::cli {

// Standard output for results, standard error for progress. Colours and redrawing happen only on a
// terminal; NO_COLOR turns colours off. Everything untrusted must be escaped by the caller.
// Not thread-safe.
class Console {
 public:
  // `is_quiet`: no progress.
  explicit Console(bool is_quiet = false);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void PrintResult(absl::string_view text);
  // One line of progress, above the live block.
  void PrintProgress(absl::string_view line);
  // Replaces the live block. Does nothing unless standard error is a terminal.
  void DrawBlock(const std::vector<std::string>& lines);
  void ClearBlock();

  bool is_live() const { return is_live_; }
  bool is_quiet() const { return is_quiet_; }
  // Whether results are coloured.
  bool has_colour() const { return has_colour_; }
  // Of the live block.
  size_t width() const;
  size_t height() const;
  // Columns for results; 0, no limit, where standard output is not a terminal.
  size_t result_width() const;

 private:
  const bool is_quiet_;
  bool is_live_;
  bool has_colour_;
  size_t block_lines_ = 0;
};

// "pike: <message>" on standard error, one line, escaped.
void PrintError(absl::string_view message);

// `text` in the colour of a verdict: green valid, yellow incorrect and the like, red infra_error.
std::string ColourVerdict(v1::VerdictKind kind, const std::string& text);

}  // namespace pike::cli
