// How is the table of planted faults written? As text, JSON and Markdown; what a card and ptxas said is read
// from files.
#pragma once
#include <string>
#include <vector>

#include "tests/planted/measure.hpp"

namespace moe::device {

struct TableFiles {
  std::string json, markdown;  // to write; empty = not
  std::string card;            // of `moeproof_faulty card`; empty = its columns stay empty
  std::string ptxas;           // folder of the compile logs of the planted cubins; empty = no column
};

/// Returns 1 when a fault is missed (measure.hpp, meets), else 0.
int print_table(const std::vector<FaultRow>& rows, const TableFiles& files);

}  // namespace moe::device
