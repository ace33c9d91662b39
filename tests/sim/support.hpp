// Problems, cards and random loads that the tests of sim share.
#pragma once
#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fixtures/files/hardware_file.hpp"
#include "fixtures/problem/problem.hpp"
#include "sim/gemm_shape.hpp"

namespace moe::sim {

inline const Hardware& h200() {
  static const Hardware hardware = load_hardware("h200");
  return hardware;
}

inline Problem layer_problem(std::int64_t hidden, std::int64_t intermediate, int experts, int top_k, int tp,
                             std::int64_t tokens) {
  Problem problem;
  problem.shape.hidden = hidden;
  problem.shape.intermediate = intermediate;
  problem.shape.experts = experts;
  problem.shape.top_k = top_k;
  problem.shape.tp = tp;
  problem.shape.tokens = tokens;
  return problem;
}

inline Problem deepseek_v3(std::int64_t tokens, int tp = 8) {
  return layer_problem(7168, 2048, 256, 8, tp, tokens);
}
inline Problem qwen3_235b(std::int64_t tokens) { return layer_problem(4096, 1536, 128, 8, 4, tokens); }
inline Problem mixtral(std::int64_t tokens) { return layer_problem(4096, 14336, 8, 2, 1, tokens); }

inline Problem gemm_of(Problem problem, int gemm) {
  problem.op = Op::grouped_gemm;
  problem.gemm = gemm;
  return problem;
}

inline Choice choice_of(Layout layout, int block_m = 0) {
  Choice choice;
  choice.layout = layout;
  choice.tile.block_m = block_m;
  choice.tile.block_n = block_m == 0 ? 0 : 128;
  return choice;
}

/// A layout with a block_m that it can run.
inline rc::Gen<std::pair<Layout, int>> any_layout() {
  return rc::gen::element(std::pair{Layout::swap_ab, 8}, std::pair{Layout::swap_ab, 16},
                          std::pair{Layout::swap_ab, 32}, std::pair{Layout::swap_ab, 64},
                          std::pair{Layout::swap_ab, 128}, std::pair{Layout::normal_wgmma, 64},
                          std::pair{Layout::normal_wgmma, 128}, std::pair{Layout::normal_mma, 16},
                          std::pair{Layout::normal_mma, 32});
}

/// Rows of up to `experts` experts, many of them idle.
inline rc::Gen<std::vector<std::int64_t>> any_rows(int experts, std::int64_t most) {
  return rc::gen::resize(experts,
                         rc::gen::container<std::vector<std::int64_t>>(rc::gen::oneOf(
                             rc::gen::just(std::int64_t(0)), rc::gen::inRange<std::int64_t>(0, most + 1))));
}

inline GemmShape gemm_shape(std::pair<Layout, int> layout, std::int64_t n, std::int64_t k) {
  GemmShape gemm;
  gemm.name = "grouped_gemm";
  gemm.n = n;
  gemm.k = k;
  gemm.layout = layout.first;
  gemm.tile.block_m = layout.second;
  gemm.tile.block_n = 128;
  return gemm;
}

}  // namespace moe::sim
