// What does `man moeproof` show? The tables of commands and options as a page for man(7), section 1.
#pragma once
#include <string>

namespace moe::harness {

std::string man_page();

}  // namespace moe::harness
