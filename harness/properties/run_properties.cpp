// What may the runs before, the schedule or a graph change? Nothing.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "harness/properties/conditions.hpp"
#include "harness/properties/property.hpp"
#include "sim/counts.hpp"

namespace moe::harness {
namespace {

constexpr int kRuns = 10, kSchedules = 6, kReplays = 3;

std::string repeated(Subject& s, int runs) {
  for (int i = 0; i < runs; ++i)
    if (std::string found = difference(s, s.inputs(), s.run(s.inputs()), s.outputs()); !found.empty())
      return fmt::format("run {}: {}", i + 2, found);
  return {};
}
std::string ten_runs(Subject& s) { return repeated(s, kRuns - 1); }
std::string other_schedules(Subject& s) { return repeated(s, kSchedules); }

/// Tokens in another order: inputs of the same shape with other routing.
TensorSet other_inputs(const Subject& s) {
  TensorSet inputs = s.inputs();
  if (s.op() != Op::grouped_gemm && s.op() != Op::align) {
    take_tokens(s.problem(), inputs, shuffled(s.shape().tokens, s.problem().seed));
    return inputs;
  }
  if (s.op() == Op::grouped_gemm) scale_all(inputs, "w_scale", 2);
  return inputs;
}

std::string graph_replays(Subject& s) {
  const TensorSet changed = other_inputs(s), due = s.run(changed);
  for (int i = 0; i < kReplays; ++i) {
    std::string found = difference(s, s.inputs(), s.run(s.inputs(), device::RunMode::graph), s.outputs());
    if (!found.empty()) return fmt::format("replay {}: {}", i + 1, found);
    found = difference(s, changed, s.run(changed, device::RunMode::graph), due);
    if (!found.empty()) return fmt::format("replay {} with other inputs: {}", i + 1, found);
  }
  return {};
}

/// Other shares of the SMs, of L2 and of the CTAs' order in every run.
std::string crowded_runs(Subject& s) {
  for (int i = 0; i < kReplays; ++i) {
    const std::string found =
        difference(s, s.inputs(), s.run(s.inputs(), device::RunMode::crowded), s.outputs());
    if (!found.empty()) return fmt::format("run {} beside another kernel: {}", i + 1, found);
  }
  return {};
}

std::string guards_hold(Subject& s) {
  s.outputs();  // what a run reports is thrown
  s.note(1, 1);
  return {};
}

std::string inputs_stay(Subject& s) {
  TensorSet before = s.inputs();
  for (const Tensor& t : s.inputs().all()) own(before, t.name());
  s.run(s.inputs());
  for (const Tensor& t : s.inputs().all()) {
    s.note(t.size(), t.size());
    if (t.filled_groups.empty() && !t.empty() &&
        std::memcmp(t.data(), before.at(t.name()).data(), t.bytes()) != 0)
      return fmt::format("the run changed its input {}", t.name());
  }
  return {};
}

/// A run on NaN leaves NaN wherever a kernel keeps something.
std::string after_nan(Subject& s) {
  TensorSet spoiled = s.inputs();
  for (const char* name : {"hidden", "gemm1", "gemm2", "a_codes"})
    if (spoiled.has(name)) {
      Tensor& t = own(spoiled, name);
      if (!t.empty())
        std::memset(t.data(), 0x7F, t.bytes());  // bf16 7F7F is large and finite; e4m3 7F is NaN
      if (t.dtype() == DType::bf16)
        for (std::uint16_t& x : t.as<std::uint16_t>()) x = 0x7FC0;
    }
  const TensorSet due = s.outputs();
  s.run(spoiled);
  return difference(s, s.inputs(), s.run(s.inputs()), due);
}

std::string other_shapes_between(Subject& s) {
  const TensorSet due = s.outputs();
  RowMap more;
  for (std::int64_t i = 0; i < 2 * s.shape().tokens + 3; ++i) more.push_back(i % s.shape().tokens);
  for (const RowMap& tokens : {more, RowMap{0}}) {
    const Resized other = resized(s, tokens);
    try {
      s.run_as(other.c, other.inputs);
    } catch (const NotApplicable&) {  // the kernel does not take that size
    }
    if (std::string found = difference(s, s.inputs(), s.run(s.inputs()), due); !found.empty())
      return fmt::format("after {} tokens: {}", tokens.size(), found);
  }
  return {};
}

std::string refusal_has_a_reason(Subject& s) {
  Case c = s.trial();
  c.choice.kernel = "no-such-kernel";
  s.note(1, 1);
  const std::string refusal = s.refusal_of(c);
  if (refusal.empty()) return "a kernel that does not exist was opened: another one answers for it";
  return refusal == "no reason" ? "a refusal without a reason" : "";
}

/// CTAs are as many as the machine has SMs; all else follows from the contract.
std::string work_as_counted(Subject& s) {
  const Counts& is = *s.plan().counts;
  const Counts due = sim::count(s.problem(), s.trial().choice, s.load(), 1);
  const std::tuple<const char*, std::int64_t, std::int64_t> parts[] = {
      {"tiles", is.tiles, due.tiles},
      {"wgmma instructions", is.wgmma_total(), due.wgmma_total()},
      {"mma.sync instructions", is.mma, due.mma},
      {"TMA loads", is.tma_loads, due.tma_loads},
      {"bytes of TMA loads", is.tma_load_bytes, due.tma_load_bytes}};
  for (const auto& [what, has, wants] : parts) {
    s.note(1, 1);
    if (has != wants) return fmt::format("{} {}, {} are due", has, what, wants);
  }
  return {};
}

bool is(const Subject& s, std::initializer_list<std::string_view> executors) {
  return std::find(executors.begin(), executors.end(), s.plan().executor->name()) != executors.end();
}

const Property kTable[] = {
    {"P12", PropertyClass::exact, "Ten runs give the same bits.", "a kernel that says it is deterministic",
     "atomics in a sum, a race, a missing wait or fence",
     [](const Subject& s) {
       return is(s, {"emulated"}) ? "every run there has its own schedule: P49" : std::string();
     },
     ten_runs},
    {"P13", PropertyClass::exact, "Another kernel on a second stream changes no bit.",
     "a kernel that says it is deterministic, an executor with two streams",
     "a result that hangs on which CTAs run together, memory of another stream's",
     [](const Subject& s) {
       return first_of({s.plan().crowded ? "" : "the executor has one stream", needs_tokens(s, 1)});
     },
     crowded_runs},
    {"P14", PropertyClass::exact, "A captured graph gives what an eager run gives, with other inputs too.",
     "an executor that captures graphs", "a counter that is not reset, an address or size of the capture",
     [](const Subject& s) {
       return first_of({s.plan().graph ? "" : "the executor captures no graph", needs_tokens(s, 1)});
     },
     graph_replays},
    {"P15", PropertyClass::contract,
     "No byte beside a tensor is written and no rule of the machine is broken.", "an executor with guards",
     "an unmasked tail, an index of -1, a missing wait or fence on the emulated SM",
     [](const Subject& s) {
       const bool guarded = s.plan().foreign || is(s, {"emulated", "cuda"});
       return guarded ? std::string() : "the executor has no guards";
     },
     guards_hold},
    {"P16", PropertyClass::contract, "A run leaves its inputs as they were.", "",
     "a result written over an operand, a sort in place", [](const Subject&) { return std::string(); },
     inputs_stay},
    {"P18", PropertyClass::exact,
     "What an earlier run left behind does not matter: NaN in between changes nothing.", "",
     "a workspace that is not cleared, an accumulator or output that is added to",
     [](const Subject& s) { return first_of({needs_tokens(s, 1)}); }, after_nan},
    {"P45", PropertyClass::contract,
     "What is not taken is refused with a reason, and nothing else answers for it.", "built-in executors",
     "a silent fallback",
     [](const Subject& s) {
       return is(s, {"emulated", "cuda", "reference"}) ? std::string() : "the harness itself refuses";
     },
     refusal_has_a_reason},
    {"P46", PropertyClass::exact, "Other shapes in between change nothing.", "",
     "a workspace sized for another shape, a cached plan, a stale counter",
     [](const Subject& s) { return needs_tokens(s, 1); }, other_shapes_between},
    {"P49", PropertyClass::exact, "No order of asynchronous completions changes a bit.", "the emulated SM",
     "a missing wait, fence or phase, a buffer that is reused too early",
     [](const Subject& s) {
       return is(s, {"emulated"}) ? std::string() : "only the emulated SM chooses its schedule";
     },
     other_schedules},
    {"P54", PropertyClass::contract, "The GEMMs do the work that their contract fixes, and no more.",
     "built-in kernels, an executor that counts",
     "a tile for an expert without rows, a panel that is computed twice, a load too many",
     [](const Subject& s) {
       return first_of({only_for(s, {Op::moe_layer, Op::grouped_gemm}), needs_tokens(s, 1),
                        built_in(s, "what a foreign kernel should do is not known"),
                        s.plan().counts ? "" : "the executor counts nothing"});
     },
     work_as_counted},
};

}  // namespace

std::span<const Property> run_properties() { return kTable; }

}  // namespace moe::harness
