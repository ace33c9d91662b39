#include "harness/exit_code.hpp"

#include <gtest/gtest.h>

namespace moe::harness {
namespace {

using C = Correctness;

ExitCode code(std::vector<C> verdicts, bool allow = false, bool gpu = false, bool late = false) {
  return exit_code(verdicts, allow, gpu, late);
}

// Would catch a failing verdict that a script reads as success, and a skipped run that it reads as a pass.
TEST(ExitCodes, EachOutcomeHasItsCode) {
  EXPECT_EQ(code({C::passed, C::refused, C::skipped}), ExitCode::passed);
  EXPECT_EQ(code({C::passed, C::failed}), ExitCode::failed);
  EXPECT_EQ(code({C::crashed}), ExitCode::failed);
  EXPECT_EQ(code({C::timed_out}), ExitCode::failed);
  EXPECT_EQ(code({C::mistrusted}), ExitCode::failed);
  EXPECT_EQ(code({C::mistrusted}, true), ExitCode::passed);
  EXPECT_EQ(code({C::refused, C::skipped}), ExitCode::nothing_ran);
  EXPECT_EQ(code({C::skipped}, false, true), ExitCode::infrastructure);
  EXPECT_EQ(code({C::passed}, false, false, true), ExitCode::time_budget);
  EXPECT_EQ(code({C::failed}, false, false, true), ExitCode::failed);
  EXPECT_EQ(code({}), ExitCode::nothing_ran);
}

}  // namespace
}  // namespace moe::harness
