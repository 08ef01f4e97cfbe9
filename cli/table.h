#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <absl/strings/string_view.h>

namespace pike::cli {

// Columns that UTF-8 text needs: code points, since our text has no wide or combining characters.
// Colour sequences ("\x1b[32m") need none.
size_t DisplayWidth(absl::string_view text);

// `text` cut to `width` columns, the cut marked by "~".
std::string CutToWidth(absl::string_view text, size_t width);
// As above, cut at the start: of a path the end tells most.
std::string CutStartToWidth(absl::string_view text, size_t width);

// Rows of text laid out in columns, two spaces apart, no trailing spaces.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    // Longest text shown; 0 means all of it. Longer text is cut.
    size_t width_max = 0;
    bool is_cut_at_start = false;
  };

  explicit Table(std::vector<Column> columns);

  // REQUIRES: one cell per column.
  void AddRow(std::vector<std::string> cells);

  // The title line, then one line per row, each ending in a newline. Columns that are empty in
  // every row are left out.
  std::string Render() const;

  size_t rows() const { return rows_.size(); }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace pike::cli
