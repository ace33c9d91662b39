// completion and man: texts that are made of the tables.
#include <ostream>

#include "fixtures/problem/errors.hpp"
#include "harness/cli.hpp"
#include "harness/man_page.hpp"
#include "harness/shell_completion.hpp"

namespace moe::harness {

int cmd_completion(const Options& o, const Streams& s) {
  if (o.words.empty()) throw BadInput("completion needs a shell: moeproof completion bash, zsh or fish");
  s.out << completion_script(o.words[0]);
  return 0;
}

int cmd_man(const Options&, const Streams& s) {
  s.out << man_page();
  return 0;
}

}  // namespace moe::harness
