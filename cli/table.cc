#include "cli/table.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace pike::cli {
namespace {

bool IsContinuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

void AppendCell(const std::string& text, size_t width, Table::Align align, std::string* line) {
  const std::string padding(width - std::min(width, DisplayWidth(text)), ' ');
  *line += align == Table::Align::kRight ? padding + text : text + padding;
}

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  size_t columns = 0;
  bool is_in_colour = false;
  for (const char c : text) {
    if (c == '\x1b')
      is_in_colour = true;
    if (!is_in_colour && !IsContinuation(c))
      columns++;
    if (c == 'm')
      is_in_colour = false;
  }
  return columns;
}

std::string CutToWidth(absl::string_view text, size_t width) {
  if (width == 0 || DisplayWidth(text) <= width)
    return std::string(text);
  size_t bytes = 0;
  size_t columns = 0;
  while (columns < width) {
    bytes++;
    while (bytes < text.size() && IsContinuation(text[bytes]))
      bytes++;
    columns++;
    if (columns == width - 1)
      break;
  }
  return width == 1 ? "~" : std::string(text.substr(0, bytes)) + "~";
}

std::string CutStartToWidth(absl::string_view text, size_t width) {
  size_t columns = DisplayWidth(text);
  if (width == 0 || columns <= width)
    return std::string(text);
  size_t start = 0;
  while (columns > width - 1) {
    start++;
    while (start < text.size() && IsContinuation(text[start]))
      start++;
    columns--;
  }
  return "~" + std::string(text.substr(start));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) {
  PIKE_CHECK(cells.size() == columns_.size());
  for (size_t i = 0; i < cells.size(); i++)
    cells[i] = columns_[i].is_cut_at_start ? CutStartToWidth(cells[i], columns_[i].width_max)
                                           : CutToWidth(cells[i], columns_[i].width_max);
  rows_.push_back(std::move(cells));
}

std::string Table::Render() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); i++)
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::vector<std::string> titles;
  for (size_t i = 0; i < columns_.size(); i++) {
    if (widths[i] > 0 || rows_.empty())
      widths[i] = std::max(widths[i], DisplayWidth(columns_[i].title));
    titles.push_back(columns_[i].title);
  }

  std::string out;
  const auto append_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); i++) {
      if (widths[i] == 0)
        continue;
      if (!line.empty())
        line += "  ";
      AppendCell(cells[i], widths[i], columns_[i].align, &line);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  append_line(titles);
  for (const auto& row : rows_)
    append_line(row);
  return out;
}

}  // namespace pike::cli
