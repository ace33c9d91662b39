// How are numbers printed for people? Three digits and the unit that fits; reports for programs keep plain SI
// values.
#pragma once
#include <cstdint>
#include <string>

namespace moe::harness {

std::string seconds_text(double seconds);    // "41.2 us"
std::string bytes_text(double bytes);        // "1.41 GB" (decimal)
std::string percent_text(double fraction);   // "71 %"
std::string ratio_text(double ratio);        // "1.52x"
std::string count_text(std::int64_t count);  // "6,537,728"

}  // namespace moe::harness
