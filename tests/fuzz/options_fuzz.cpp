// The command line: words, one a line, the first a command.
#include "harness/options.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  std::vector<std::string> words;
  for (std::string_view rest = fuzz::as_text(bytes, size); !rest.empty();) {
    const std::size_t end = rest.find('\n');
    words.emplace_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  if (words.empty()) return 0;
  const harness::Command* command = harness::find_command(words.front());
  if (!command) return 0;
  words.erase(words.begin());
  fuzz::accepted([&] { harness::parse_options(*command, words); });
  return 0;
}
