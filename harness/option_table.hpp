// Which options exist? One row each: name, how its value is written, which commands take it, what it does.
#pragma once
#include <string>
#include <vector>

#include "harness/options.hpp"

namespace moe::harness {

struct OptionRow {
  std::string name;      // without the dashes
  std::string value;     // "FILE"; empty = a switch
  std::string commands;  // space separated
  std::string group;     // heading in the help
  std::string text;      // what it does
  void (*set)(Options&, const std::string& value);
};
const std::vector<OptionRow>& option_table();

/// True where `command` takes the row's option.
bool takes(const OptionRow& row, const std::string& command);

}  // namespace moe::harness
