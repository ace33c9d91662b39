#include "harness/interrupt.hpp"

#include <csignal>

#include "fixtures/files/whole_file.hpp"
#include "harness/child_process.hpp"

namespace moe::harness {
namespace {

/// The handler was taken away when it was entered and the signal is not blocked: raise() ends the process
/// here.
void clean_up_and_end(int signal) {
  end_all_children();
  remove_unfinished_files();
  ::raise(signal);
}

}  // namespace

void end_cleanly_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {
    }, action{};
    if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) continue;
    action.sa_handler = clean_up_and_end;
    action.sa_flags = int(SA_RESETHAND | SA_NODEFER);
    ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace moe::harness
