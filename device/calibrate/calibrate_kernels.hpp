// Which micro-kernels measure a card? One line a kernel: its place is the number that Machine::launch takes.
// None of them computes a GEMM or a part of a MoE layer: `structure_*` are the families' surroundings without
// a product.
#pragma once
#include <array>
#include <string_view>

namespace moe::device {

enum class CalibrateKernel : int {
  wgmma_chain,
  wgmma_chain_rs,
  wgmma_drain,
  wgmma_promote,
  wgmma_promote_rows,
  wgmma_promote_columns,
  wgmma_handover,
  tensor_busy,
  mma_f16_chain,
  convert_chain,
  stream_blocks,
  stream_boxes,
  box_latency,
  loader,
  wait_cost,
  fill_region,
  write_region,
  copy_region,
  empty,
  spin,
  grid_barrier,
  small_kernel,
  structure_swap_ab_8,
  structure_swap_ab_16,
  structure_swap_ab_32,
  structure_swap_ab_64,
  structure_swap_ab_128,
  structure_normal_64,
  structure_normal_128,
  structure_mma_16,
  structure_mma_32,
};

struct CalibrateEntry {
  std::string_view name;  // its symbol
  std::string_view unit;  // device/calibrate/<unit>.cu
  int variant = -1;       // whose threads and shared memory a structure kernel has (variants.hpp)
};

inline constexpr std::array kCalibrateKernels = {
    CalibrateEntry{"wgmma_chain", "tensor"},
    CalibrateEntry{"wgmma_chain_rs", "tensor"},
    CalibrateEntry{"wgmma_drain", "tensor"},
    CalibrateEntry{"wgmma_promote", "tensor"},
    CalibrateEntry{"wgmma_promote_rows", "tensor"},
    CalibrateEntry{"wgmma_promote_columns", "tensor"},
    CalibrateEntry{"wgmma_handover", "tensor"},
    CalibrateEntry{"tensor_busy", "tensor"},
    CalibrateEntry{"mma_f16_chain", "tensor"},
    CalibrateEntry{"convert_chain", "tensor"},
    CalibrateEntry{"stream_blocks", "memory"},
    CalibrateEntry{"stream_boxes", "memory"},
    CalibrateEntry{"box_latency", "memory"},
    CalibrateEntry{"loader", "memory"},
    CalibrateEntry{"wait_cost", "memory"},
    CalibrateEntry{"fill_region", "memory"},
    CalibrateEntry{"write_region", "memory"},
    CalibrateEntry{"copy_region", "memory"},
    CalibrateEntry{"empty", "launch"},
    CalibrateEntry{"spin", "launch"},
    CalibrateEntry{"grid_barrier", "launch"},
    CalibrateEntry{"small_kernel", "launch"},
    CalibrateEntry{"structure_swap_ab_8", "structure", 0},
    CalibrateEntry{"structure_swap_ab_16", "structure", 1},
    CalibrateEntry{"structure_swap_ab_32", "structure", 2},
    CalibrateEntry{"structure_swap_ab_64", "structure", 3},
    CalibrateEntry{"structure_swap_ab_128", "structure", 4},
    CalibrateEntry{"structure_normal_64", "structure", 10},
    CalibrateEntry{"structure_normal_128", "structure", 11},
    CalibrateEntry{"structure_mma_16", "structure", 14},
    CalibrateEntry{"structure_mma_32", "structure", 15},
};
static_assert(kCalibrateKernels.size() == std::size_t(CalibrateKernel::structure_mma_32) + 1);

}  // namespace moe::device
