// The program: one command line in, one exit status out.
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "harness/cli.hpp"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error with its own message, not a silent death
  const moe::harness::Streams streams{std::cout, std::cerr, ::isatty(STDOUT_FILENO) != 0,
                                      ::isatty(STDERR_FILENO) != 0};
  const int status = moe::harness::run_command_line({argv + 1, argv + argc}, streams);
  std::cout.flush();
  return status;
}
