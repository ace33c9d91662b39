// The program: one command line in, one exit status out.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "harness/cli.hpp"
#include "harness/interrupt.hpp"
#include "harness/printable_stream.hpp"

/// A standard stream that the caller closed must stay an error: a file or a pipe opened later would get its
/// number.
void hold_standard_streams() {
  for (int stream = 0; stream < 3; ++stream)
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char** argv) {
  hold_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error with its own message, not a silent death
  moe::harness::end_cleanly_on_signals();
  moe::harness::PrintableBuffer shown(std::cout.rdbuf(), false), told(std::cerr.rdbuf(), true);
  std::ostream out(&shown), err(&told);
  err << std::unitbuf;
  const moe::harness::Streams streams{out, err, ::isatty(STDOUT_FILENO) != 0, ::isatty(STDERR_FILENO) != 0,
                                      argc > 0 && argv[0][0] != '\0' ? argv[0] : "moeproof"};
  return moe::harness::run_command_line({argv + 1, argv + argc}, streams);
}
