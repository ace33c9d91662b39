// What is a chart on the page? A picture (inline SVG), the numbers that it shows as a table for those who do
// not see it, and a sentence. All functions are pure.
#pragma once
#include <string>
#include <vector>

namespace moe::harness {

struct NumberTable {
  struct Head {
    std::string text;
    bool numeric = false;
  };
  std::vector<Head> heads;
  std::vector<std::vector<std::string>> rows;  // plain text, a cell a head
};

struct LegendEntry {
  std::string style;  // class of its marks and lines: "swap_ab", "normal_mma dashed"
  std::string text;
  int form = 0;  // of its marks (harness/html/plot.hpp)
};

struct Figure {
  std::string title, note;  // plain text; the note says what is drawn, with units
  std::vector<LegendEntry> legend;
  std::string svg;
  NumberTable numbers;
};

/// A table's markup; `controls`: the page's script makes it sort and filter.
std::string table_html(const NumberTable&, bool controls);
std::string figure_html(const Figure&);
/// A heading and its figures side by side; "" without figures.
std::string section_html(const std::string& id, const std::string& title, const std::vector<Figure>&);

}  // namespace moe::harness
