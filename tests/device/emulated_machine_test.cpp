// Does the emulated SM keep the contract of device/machine.hpp?
#include "device/emulator/emulated_machine.hpp"

#include <gtest/gtest.h>

#include "fixtures/problem/errors.hpp"
#include "tests/device/emulator_fixture.hpp"
#include "tests/device/kernels/slices_params.hpp"

namespace moe::test {
namespace {

using namespace device;

struct Fixture {
  EmulatedKernel kernels[3] = {
      {slices(SlicesFault::none), sizeof(SlicesParams), "slices"},
      {slices(SlicesFault::overlapping_write), sizeof(SlicesParams), "slices_overlapping"},
      {}};
  EmulatedMachine machine{kernels, {}, 4};
  SlicesParams params{};
  std::vector<std::uint8_t> in = std::vector<std::uint8_t>(4 * 100 + 1);
  Fixture() {
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = std::uint8_t(3 * i);
    const Address a = machine.allocate(in.size(), BufferUse::input, "in");
    machine.upload(a, in.data(), in.size());
    params.in = reinterpret_cast<const std::uint8_t*>(a);
    params.out = reinterpret_cast<std::uint8_t*>(machine.allocate(401, BufferUse::output, "out"));
    params.counter = reinterpret_cast<std::uint32_t*>(machine.allocate(4, BufferUse::workspace, "counter"));
    params.result = reinterpret_cast<std::uint8_t*>(machine.allocate(4, BufferUse::workspace, "result"));
    params.bytes = 100;
  }
  Address out() const { return reinterpret_cast<Address>(params.out); }
  std::vector<std::uint8_t> output() {
    std::vector<std::uint8_t> bytes(401);
    machine.download(bytes.data(), out(), bytes.size());
    return bytes;
  }
};

// Catches: lost bytes, outputs that do not start poisoned, counts that are not reset.
TEST(EmulatedMachine, RunsAndCounts) {
  Fixture f;
  EXPECT_EQ(f.output(), std::vector<std::uint8_t>(401, 0xFF));
  launch(f.machine, 0, {4, 64, 0, false}, f.params);
  for (std::size_t i = 0; i < 400; ++i) ASSERT_EQ(f.output()[i], std::uint8_t(3 * i + 1));
  EXPECT_EQ(f.output()[400], 0xFF);
  Counts counts;
  ASSERT_TRUE(f.machine.take_counts(counts));
  EXPECT_EQ(counts.ctas, 4);
  f.machine.take_counts(counts);
  EXPECT_EQ(counts, Counts{});
  EXPECT_TRUE(f.machine.take_reports().empty());
}

// Catches: reports that are dropped, kept for ever, or do not say which kernel.
TEST(EmulatedMachine, ReportsNameTheKernel) {
  Fixture f;
  launch(f.machine, 1, {4, 64, 0, false}, f.params);
  const std::vector<std::string> reports = f.machine.take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].starts_with("slices_overlapping: ")) << reports[0];
  EXPECT_TRUE(f.machine.take_reports().empty());
}

// Catches: a replay that runs something else, or nothing.
TEST(EmulatedMachine, ReplayRunsWhatWasRecorded) {
  Fixture f;
  f.machine.fill(reinterpret_cast<Address>(f.params.counter), 0, 4);
  const int graph = f.machine.record([&] { launch(f.machine, 0, {4, 64, 0, false}, f.params); });
  for (std::uint32_t runs = 1; runs <= 3; ++runs) {
    f.machine.replay(graph);
    EXPECT_EQ(*f.params.counter, runs * 4 * 64);
  }
  EXPECT_LT(f.machine.time_of([] {}), 0);
}

// Catches: a launch with a wrong parameter struct, an unknown variant or an illegal shape that runs into
// memory.
TEST(EmulatedMachine, RefusesBadLaunches) {
  Fixture f;
  EXPECT_THROW(f.machine.launch(0, {1, 64, 0, false}, &f.params, 8), BadInput);
  for (int variant : {-1, 2, 3})
    EXPECT_THROW(launch(f.machine, variant, {1, 64, 0, false}, f.params), BadInput);
  for (unsigned block : {0u, 33u, 1056u})
    EXPECT_THROW(launch(f.machine, 0, {1, block, 0, false}, f.params), BadInput);
  EXPECT_THROW(launch(f.machine, 0, {0, 64, 0, false}, f.params), BadInput);
  EXPECT_THROW(f.machine.tensor_map(f.out(), 1, 128, 120, 8), BadInput);
  EXPECT_THROW(f.machine.tensor_map(f.out(), 1, 128, 128, 257), BadInput);
  launch(f.machine, 0, {1, 64, 232449, false}, f.params);  // the kernel's fault, not the caller's
  EXPECT_EQ(f.machine.take_reports().size(), 1u);
}

// Catches: a sparse tensor that becomes real memory; lookups that lose a region among many.
TEST(EmulatedMachine, SparseTensorsCostNothing) {
  Fixture f;
  const std::size_t bytes = std::size_t(64) << 30;
  const Address big = f.machine.allocate(bytes, BufferUse::input, "weights");
  const std::uint8_t value = 7;
  f.machine.upload(big + bytes - 1, &value, 1);
  const auto* region = f.machine.memory().find(big + bytes - 1);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->name, "weights");
  EXPECT_EQ(f.machine.memory().find(big + bytes), nullptr);
  for (int i = 0; i < 500; ++i)
    f.machine.allocate(std::size_t(i), BufferUse::workspace, "w" + std::to_string(i));
  EXPECT_EQ(f.machine.memory().find(big)->name, "weights");
  f.machine.release_all();
  EXPECT_EQ(f.machine.memory().find(big), nullptr);
}

// Catches: forbidden ranges that are not kept or not given back.
TEST(EmulatedMachine, ForbiddenBytesAreForbidden) {
  Fixture f;
  f.machine.memory().forbid_writes(f.params.out, 401);
  f.machine.memory().allow_writes(f.params.out, 250);
  launch(f.machine, 0, {2, 64, 0, false}, f.params);
  EXPECT_TRUE(f.machine.take_reports().empty());
  launch(f.machine, 0, {3, 64, 0, false}, f.params);
  const std::vector<std::string> reports = f.machine.take_reports();
  ASSERT_EQ(reports.size(), 1u);
  // thread 0 is the first to get there: bytes 200, 264
  EXPECT_NE(reports[0].find("byte 264 of 'out'"), std::string::npos) << reports[0];
}

}  // namespace
}  // namespace moe::test
