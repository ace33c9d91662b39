// How does an interrupted program end? As any program that a signal ends (the shell sees 128 + its number),
// but without leaving half a file: INT, TERM and HUP first end the worker processes
// with all that they started and remove the temporaries of files not yet whole. A signal that was ignored at
// the start stays ignored.
#pragma once

namespace moe::harness {

/// Called once, by main, before any thread starts.
void end_cleanly_on_signals();

}  // namespace moe::harness
