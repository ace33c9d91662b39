#include "tests/planted/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "device/kernels/emulated_variants.hpp"
#include "device/session/moe_session.hpp"
#include "fixtures/problem/auto_tile.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "reference/tensor_core/mma_step.hpp"
#include "tests/planted/plant.hpp"

namespace moe::device {
namespace {

/// Columns 0..127 of row 0 of the hidden states, as bf16 bits.
void set_block(TensorSet& inputs, std::uint16_t bits) {
  const auto hidden = inputs.at("hidden").as<std::uint16_t>();
  std::fill_n(hidden.begin(), 128, bits);
}

/// Weights of a third and neighbouring slots of opposite rows: the sum is what rounding left.
void cancel_rows(TensorSet& inputs) {
  for (float& w : inputs.at("topk_weights").as<float>()) w = 1.0f / 3.0f;
  Tensor& rows = inputs.at("gemm2");
  const auto values = rows.as<std::uint16_t>();
  const auto width = std::size_t(rows.dim(1));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::uint16_t((i / width % 2 ? 0xBF80 : 0x3F80) + i % width % 128);
}

void edit(TensorSet& inputs, InputEdit how) {
  const auto logits = [&] { return inputs.at("router_logits").as<float>(); };
  switch (how) {
    case InputEdit::none:
      return;
    case InputEdit::nan_logits:
      logits()[3] = std::numeric_limits<float>::quiet_NaN();
      return;
    case InputEdit::negative_logits:
      for (float& x : logits()) x = -20.0f - std::abs(x);
      for (float& x : inputs.at("router_bias").as<float>()) x = -0.5f - std::abs(x);
      return;
    case InputEdit::equal_logits:
      for (float& x : logits()) x = 0.5f;
      return;
    case InputEdit::zero_block:
      return set_block(inputs, 0);
    case InputEdit::tiny_block:
      return set_block(inputs, 0x0040);  // 2^-127
    case InputEdit::large_block:
      return set_block(inputs, 0x4380);  // 256
    case InputEdit::foreign_rows:        // pairs of another rank hold ones instead of zeros
      for (std::uint16_t& x : inputs.at("gemm2").as<std::uint16_t>()) x = x == 0 ? 0x3F80 : x;
      return;
    case InputEdit::cancelling_rows:
      return cancel_rows(inputs);
  }
}

/// The id at the end of "file:line: text [id]".
std::string check_of(const std::string& sentence) {
  const auto at = sentence.rfind('[');
  return at == std::string::npos ? sentence : sentence.substr(at + 1, sentence.size() - at - 2);
}

std::string outputs_of(const RunResult& result) {
  std::string bytes;
  for (const Tensor& t : result.outputs.all())
    bytes.append(reinterpret_cast<const char*>(t.data()), t.bytes());
  return bytes;
}

std::string counts_of(const RunResult& result) {
  const Counts& n = result.counts;
  if (!result.counted) return {};
  std::string bytes = fmt::format("{} {} {} {} {}", n.ctas, n.tiles, n.tma_loads, n.tma_load_bytes, n.mma);
  for (const auto& [width, count] : n.wgmma) bytes += fmt::format(" {}:{}", width, count);
  return bytes;
}

}  // namespace

Scenario::Scenario(const FaultInfo& info) : case_(resolve_case(parse_case(info.trigger))) {
  inputs_ = make_inputs(case_.problem, case_.choice, routing_of(case_.problem), 1);
  edit(inputs_, info.edit);
}

Seen Scenario::run(const std::shared_ptr<Machine>& machine, Fault fault, bool graph) const {
  plant(fault);
  Seen seen;
  try {
    Opened opened = open_moe_session(case_, [&] { return machine; });
    if (opened.session == nullptr) throw BadInput(opened.refusal);
    opened.session->bind(inputs_);
    const RunResult result = opened.session->run(graph ? RunMode::graph : RunMode::eager);
    seen.sentences = result.reports;
    for (const std::string& sentence : result.reports) seen.checks.insert(check_of(sentence));
    seen.outputs = outputs_of(result);
    seen.counts = counts_of(result);
  } catch (const BadInput& error) {
    seen.checks.insert("refused");
    seen.sentences.emplace_back(error.what());
    machine->take_reports();
  }
  plant(Fault::none);
  return seen;
}

std::shared_ptr<EmulatedMachine> emulated_machine() {
  emulator::Options options;
  options.arithmetic = reference::mma_step();
  return std::make_shared<EmulatedMachine>(emulated_variants(), options, 2);
}

void set_order(EmulatedMachine& machine, std::uint64_t seed) {
  emulator::Options options;
  if (seed != 0) options = emulator::Options::adversarial(seed, reference::mma_step());
  options.arithmetic = reference::mma_step();
  options.max_switches = 1'000'000;  // a fault may walk a list of garbage: a livelock
  machine.set_options(options);
}

}  // namespace moe::device
