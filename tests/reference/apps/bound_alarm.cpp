// How often does a correct kernel leave the probable bound? Draws GEMMs of every scheme, data mode and kind
// of hurtful data, computes them to the bit under drawn presets and mixed Semantics, in natural, reversed and
// shuffled order of the k's, and judges each output as that of a kernel that declares nothing.
//
//   bound_alarm [outputs=1e6] [largest K=4096] [threads=1] [seed=1]
#include <cstdio>
#include <cstdlib>
#include <map>

#include "../bound_draw.hpp"

int main(int argc, char** argv) {
  using namespace moe;
  using namespace moe::reference;
  const double wanted = argc > 1 ? std::atof(argv[1]) : 1e6;
  const std::int64_t most_k = argc > 2 ? std::atoi(argv[2]) : 4096;
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1;
  draw::Random random(argc > 4 ? std::uint64_t(std::atoll(argv[4])) : 1);
  std::map<std::string, draw::Reach> by_data;
  draw::Reach all;
  while (double(all.outputs) < wanted) {
    const draw::GemmTrial trial = draw::gemm(random, 16, 256, most_k);
    const StageTruth truth = draw::undeclared_bounds(trial.problem, trial.inputs, threads);
    for (int order = 0; order < 3; ++order) {
      const Semantics semantics = draw::semantics(random, trial.problem.quant);
      const TensorSet inputs =
          order ? draw::in_another_order(random, trial, order == 2) : own_copy(trial.inputs);
      const StageTruth bits = draw::gemm_bits_of(trial.problem, inputs, semantics, threads);
      const draw::Reach reach = draw::reach_of(truth.tensors[0], bits.tensors[0].bits.as<std::uint16_t>());
      if (reach.outside > 0)
        std::printf("outside: %lld outputs, %.2f of the bound, order %d, K %lld, %s, %s\n",
                    static_cast<long long>(reach.outside), reach.probable, order,
                    static_cast<long long>(trial.problem.shape.hidden), name(trial.problem.quant.kind).data(),
                    trial.data.c_str());
      for (draw::Reach* sum : {&all, &by_data[trial.data]}) {
        sum->outputs += reach.outputs, sum->outside += reach.outside;
        sum->probable = std::fmax(sum->probable, reach.probable),
        sum->hard = std::fmax(sum->hard, reach.hard);
      }
    }
  }
  for (const auto& [data, reach] : by_data)
    std::printf(
        "%-20s %9lld outputs, %lld outside, at most %.2f of the probable and %.2f of the hard bound\n",
        data.c_str(), static_cast<long long>(reach.outputs), static_cast<long long>(reach.outside),
        reach.probable, reach.hard);
  std::printf("all: %lld outputs, %lld outside, at most %.2f of the probable and %.2f of the hard bound\n",
              static_cast<long long>(all.outputs), static_cast<long long>(all.outside), all.probable,
              all.hard);
  return all.outside > 0;
}
