// Which processes did a child start that are in its process group no longer (setsid, daemons)? Every child
// gets a mark in its environment, which what it starts inherits; the kernel shows it in /proc. Linux only, as
// the rest.
#pragma once
#include <string>
#include <vector>

namespace moe::harness {

/// A fresh mark of a child of this process, "moeproof-child-PID.N;" behind a ';'.
std::string new_mark();
/// What the marks of all children of this process begin with.
std::string mark_of_all();

/// The environment of this process with one more mark, "NAME=VALUE" each: a program that a marked process
/// runs carries the outer mark too.
std::vector<std::string> marked_environment(const std::string& mark);

/// Kills every other process whose environment holds `mark`, again until none is left that was not killed
/// before (they may start others meanwhile). One that emptied its environment is not found. System calls and
/// the stack only: safe in a signal handler.
void kill_marked(const char* mark) noexcept;

}  // namespace moe::harness
