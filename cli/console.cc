#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <absl/strings/str_cat.h>

#include "common/base/text.h"

namespace pike::cli {
namespace {

bool IsCapableTerminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term != nullptr && absl::string_view(term) != "dumb";
}

winsize TerminalSize(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = 100;
    size.ws_row = 25;
  }
  return size;
}

void Write(std::FILE* file, absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

}  // namespace

Console::Console(bool is_quiet)
    : is_quiet_(is_quiet), is_live_(!is_quiet && IsCapableTerminal(STDERR_FILENO)) {
  const char* no_color = std::getenv("NO_COLOR");
  has_colour_ = IsCapableTerminal(STDOUT_FILENO) && (no_color == nullptr || *no_color == '\0');
}

Console::~Console() {
  ClearBlock();
}

void Console::PrintResult(absl::string_view text) {
  ClearBlock();
  Write(stdout, text);
}

void Console::PrintProgress(absl::string_view line) {
  if (is_quiet_)
    return;
  ClearBlock();
  Write(stderr, absl::StrCat(line, "\n"));
}

void Console::DrawBlock(const std::vector<std::string>& lines) {
  if (!is_live_)
    return;
  std::string out;
  if (block_lines_ > 0)
    absl::StrAppend(&out, "\x1b[", block_lines_, "A\r\x1b[J");
  for (const std::string& line : lines)
    absl::StrAppend(&out, line, "\n");
  Write(stderr, out);
  block_lines_ = lines.size();
}

void Console::ClearBlock() {
  if (block_lines_ > 0)
    DrawBlock({});
}

size_t Console::width() const {
  return TerminalSize(STDERR_FILENO).ws_col;
}

size_t Console::height() const {
  return TerminalSize(STDERR_FILENO).ws_row;
}

size_t Console::result_width() const {
  return IsCapableTerminal(STDOUT_FILENO) ? TerminalSize(STDOUT_FILENO).ws_col : 0;
}

void PrintError(absl::string_view message) {
  Write(stderr, absl::StrCat("pike: ", EscapeLine(message), "\n"));
}

std::string ColourVerdict(v1::VerdictKind kind, const std::string& text) {
  const char* colour = "33";
  if (kind == v1::VERDICT_KIND_VALID)
    colour = "32";
  else if (kind == v1::VERDICT_KIND_INFRA_ERROR || kind == v1::VERDICT_KIND_SUSPECT)
    colour = "31";
  return absl::StrCat("\x1b[", colour, "m", text, "\x1b[0m");
}

}  // namespace pike::cli
