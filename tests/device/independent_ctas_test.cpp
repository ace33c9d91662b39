// Are CTAs independent, and does the number of host threads that run them change nothing?
#include <gtest/gtest.h>

#include <cstring>

#include "device/emulator/independence.hpp"
#include "tests/device/emulator_fixture.hpp"
#include "tests/device/kernels/slices_params.hpp"

namespace moe::test {
namespace {

using namespace device::emulator;

constexpr int kCtas = 24, kBytes = 77;  // odd, so that slices share words

struct Slices {
  GlobalMemory memory;
  Emulator emulator{memory};
  SlicesParams params{};
  Slices() {
    auto* in = static_cast<std::uint8_t*>(memory.allocate(kCtas * kBytes + 1, "in", true));
    for (int i = 0; i < kCtas * kBytes; ++i) in[i] = std::uint8_t(i * 13);
    params.in = in;
    params.out = static_cast<std::uint8_t*>(memory.allocate(kCtas * kBytes + 1, "out"));
    params.counter = static_cast<std::uint32_t*>(memory.allocate(4, "counter"));
    params.result = static_cast<std::uint8_t*>(memory.allocate(kCtas, "result"));
    params.bytes = kBytes;
  }
  LaunchResult run(SlicesFault fault, const Options& o) {
    return emulator.launch({slices(fault), &params, sizeof params, kCtas, 64, 0}, o);
  }
};

// Catches: neighbours in one word, shared inputs or atomics taken for a conflict.
TEST(IndependentCtas, OwnBytesAreNoConflict) {
  for (int threads : {1, 3}) {
    Slices s;
    Options o;
    o.threads = threads;
    const LaunchResult r = s.run(SlicesFault::none, o);
    EXPECT_TRUE(r.clean()) << all_sentences(r);
    EXPECT_EQ(r.counts.ctas, kCtas);
    EXPECT_EQ(*s.params.counter, kCtas * 64u);
    for (int i = 0; i < kCtas * kBytes; ++i) ASSERT_EQ(s.params.out[i], std::uint8_t(i * 13 + 1));
  }
}

// Catches: a conflict that is missed, or found only in some order of CTAs.
TEST(IndependentCtas, ConflictsAreFoundWhateverTheOrder) {
  for (SlicesFault fault :
       {SlicesFault::overlapping_write, SlicesFault::reads_neighbour, SlicesFault::plain_read_of_counter}) {
    std::string first;
    for (int threads : {1, 2, 5}) {
      Slices s;
      Options o;
      o.threads = threads;
      const LaunchResult r = s.run(fault, o);
      ASSERT_FALSE(r.reports.empty()) << int(fault);
      EXPECT_EQ(r.reports.back().check, "cta-race") << all_sentences(r);
      if (first.empty()) first = all_sentences(r);
      EXPECT_EQ(all_sentences(r), first);
    }
  }
}

// Catches: reports, bytes or counts that depend on which host thread ran a CTA.
TEST(IndependentCtas, ParallelEqualsSerial) {
  for (Fault fault : {Fault::none, Fault::missing_proxy_fence, Fault::expect_too_many_bytes})
    for (int seed = -1; seed < 4; ++seed) {
      std::string first;
      std::vector<float> bytes;
      for (int threads : {1, 4}) {
        PipelineProblem problem(2, 4, 7);
        problem.clear_output();
        Emulator emulator(problem.memory);
        Options o = seed < 0 ? Options{} : Options::adversarial(std::uint64_t(seed), integer_arithmetic());
        o.arithmetic = integer_arithmetic();
        o.threads = threads;
        o.check = true;
        Launch l = problem.launch(fault);
        l.grid = 8;  // all CTAs compute the same tiles: the one legal conflict here is with oneself
        const LaunchResult r = emulator.launch(l, o);
        const std::string text = all_sentences(r) + std::to_string(r.switches) + " " +
                                 std::to_string(r.accesses) + " " + std::to_string(r.counts.tma_loads) + " " +
                                 std::to_string(r.counts.ctas);
        if (threads == 1) {
          first = text;
          bytes.assign(problem.params.out, problem.params.out + problem.expected.size());
        }
        EXPECT_EQ(text, first);
        if (fault == Fault::none) {
          EXPECT_EQ(std::memcmp(bytes.data(), problem.params.out, bytes.size() * 4), 0);
          EXPECT_TRUE(problem.output_right());
        }
      }
    }
}

// Catches: a sweep that loses an overlap behind a long interval, or takes one CTA for two.
TEST(IndependentCtas, SweepAgreesWithAllPairs) {
  Scramble random{11};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<AccessLog> logs(4);
    struct One {
      int cta;
      Access kind;
      std::uintptr_t lo, hi;
    };
    std::vector<One> all;
    for (int i = 0; i < 8; ++i) {
      const auto lo = std::uintptr_t(1000 + random.below(60));
      const One one{random.below(4), Access(random.below(4)), lo, lo + 1 + std::uintptr_t(random.below(12))};
      all.push_back(one);
      logs[std::size_t(one.cta)].record(one.kind, one.lo, one.hi - one.lo, 1);
    }
    bool conflict = false;
    for (const One& a : all)
      for (const One& b : all)
        conflict |= a.cta != b.cta && a.lo < b.hi && b.lo < a.hi &&
                    (a.kind == Access::write || b.kind == Access::write ||
                     (a.kind == Access::atomic) != (b.kind == Access::atomic));
    EXPECT_EQ(!find_conflicts(logs, 3).empty(), conflict) << "trial " << trial;
  }
}

}  // namespace
}  // namespace moe::test
