// How does a run of many single cases go? The corpus and random cases, or the lines of a file, one after the
// other: announced, run, shrunk where they fail, written to the journal; what an earlier run has done is
// counted, not run.
#pragma once
#include "harness/suite.hpp"

namespace moe::harness {

/// `check --trials N`: the corpus's lines that the executor and the options allow, then N proposals.
void run_trials(Suite& suite);
/// `check --suite FILE`.
void run_case_file(Suite& suite);

}  // namespace moe::harness
