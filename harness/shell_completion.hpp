// How does a shell complete this program's words? A script a shell, made of the tables of commands and
// options, so that no option is missing in it.
#pragma once
#include <string>
#include <string_view>

namespace moe::harness {

/// "bash", "zsh" or "fish"; throws BadInput for another.
std::string completion_script(std::string_view shell);

}  // namespace moe::harness
