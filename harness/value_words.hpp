// Which words can stand behind an option? What a shell offers; an option that takes numbers or text has none.
#pragma once
#include <string>
#include <vector>

#include "harness/option_table.hpp"

namespace moe::harness {

struct ValueWords {
  std::vector<std::string> words;
  bool files = false;  // a path fits too
};
ValueWords value_words(const OptionRow& row);
/// Of a command's positional arguments.
ValueWords value_words(const Command& command);

}  // namespace moe::harness
