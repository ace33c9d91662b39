// The line of a long run: what it says, and that it leaves nothing behind.
#include "harness/progress.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

namespace moe::harness {
namespace {

// Catches: a rest that counts done cases, or a rate turned around.
TEST(Progress, SaysRateFailuresAndRest) {
  EXPECT_EQ(progress_text({400, 100, 2, 50}), "100 of 400, 2 a second, 2 failed, about 2 min left");
  EXPECT_EQ(progress_text({10, 1, 0, 100}), "1 of 10, 0.6 a minute, about 15 min left");
  EXPECT_EQ(progress_text({1, 0, 0, 7}), "0 of 1, 7 s");
  EXPECT_EQ(progress_text({0, 3, 0, 6}), "3 done, 0.5 a second, 6 s");
}

// One line of a terminal, whatever the numbers.
RC_GTEST_PROP(Progress, FitsALine, ()) {
  const ProgressState p{*rc::gen::arbitrary<std::size_t>(), *rc::gen::arbitrary<std::size_t>(),
                        *rc::gen::arbitrary<std::size_t>(), double(*rc::gen::inRange(0, 1'000'000'000))};
  const std::string text = progress_text(p);
  RC_ASSERT(text.size() <= 79u);
  RC_ASSERT(text.find('\n') == std::string::npos);
}

// Catches: a log without the case that was in flight, or numbers that a skipped case shifts.
TEST(Progress, ALogNamesEachCase) {
  std::ostringstream err;
  {
    Progress progress(err, Progress::Style::log);
    progress.plan(3);
    progress.leave_out();
    progress.start("a");
    progress.finish(true);
    progress.start("b");
  }
  EXPECT_EQ(err.str(), "1/2 running: a\n2/2 running: b\n");
}

// Catches: a run of a moment that flickers, and words that --quiet lets through.
TEST(Progress, ShortAndQuietRunsSayNothing) {
  for (const Progress::Style style : {Progress::Style::line, Progress::Style::none}) {
    std::ostringstream err;
    {
      Progress progress(err, style);
      progress.plan(2);
      progress.start("a");
      progress.finish(false);
    }
    EXPECT_EQ(err.str(), "");
  }
}

}  // namespace
}  // namespace moe::harness
