#include <fmt/format.h>

#include <ostream>

#include "fixtures/files/safetensors.hpp"
#include "fixtures/files/whole_file.hpp"
#include "fixtures/problem/errors.hpp"
#include "fixtures/problem/generate.hpp"
#include "harness/cli.hpp"
#include "harness/executors.hpp"
#include "harness/expand.hpp"
#include "harness/host_memory.hpp"
#include "harness/memory_need.hpp"
#include "harness/reference_executor.hpp"
#include "sim/predict.hpp"

namespace moe::harness {
namespace {

/// FNV-1a over a tensor's bytes: two runs, two machines, same bytes.
std::uint64_t hash_of(const Tensor& t) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < t.bytes(); ++i) hash = (hash ^ std::uint64_t(t.data()[i])) * 0x100000001b3u;
  return hash;
}

std::string shape_words(const Tensor& t) {
  std::string text;
  for (const std::int64_t side : t.shape()) text += (text.empty() ? "" : " x ") + std::to_string(side);
  return text;
}

}  // namespace

int cmd_reference(const Options& o, const Streams& s) {
  if (!o.out.empty()) require_writable(o.out);
  const auto works = expand(o.problem, Shard{});
  if (works.size() != 1) throw BadInput("reference computes one problem: give one --tokens and one --load");
  const Case c{works[0].problem, works[0].choices.back()};
  const Routing routing = routing_of(c.problem);
  const std::string no_room = memory_refusal(c.problem, sim::local_load(c.problem, routing), {"reference"},
                                             {available_host_memory()});
  if (!no_room.empty()) throw BadInput(no_room);
  const TensorSet inputs = make_inputs(c.problem, c.choice, routing);
  device::Opened opened = make_reference_executor(host_threads())->open(c);
  if (opened.session == nullptr) throw BadInput(opened.refusal);
  opened.session->bind(inputs);
  const device::RunResult result = opened.session->run(device::RunMode::eager);
  if (!o.output.quiet) {
    s.out << to_line(c) << "\n";
    for (const Tensor& t : result.outputs.all())
      s.out << fmt::format("  {:<14} {:<5} {:<16} {:016x}\n", t.name(), name(t.dtype()), shape_words(t),
                           hash_of(t));
  }
  if (o.out.empty()) return 0;
  TensorSet all = inputs;
  for (const Tensor& t : result.outputs.all())
    if (!all.has(t.name())) all.add(t);
  write_safetensors(o.out, all);
  return 0;
}

}  // namespace moe::harness
