// Which columns do people read? The same cells for the terminal, markdown and HTML; a column that no case
// fills is left out.
#pragma once
#include <string>
#include <vector>

#include "harness/record.hpp"

namespace moe::harness {

struct Column {
  std::string heading;
  bool numeric = false;
  std::vector<std::string> cells;  // one a case; empty = nothing to say
};
std::vector<Column> report_columns(const Report&);

}  // namespace moe::harness
