// Which layouts are compared, and with which tile? `both` puts Swap-AB beside what it replaces.
#pragma once
#include <string_view>
#include <vector>

#include "fixtures/problem/case.hpp"
#include "fixtures/problem/routing.hpp"

namespace moe::harness {

enum class LayoutRequest { normal_mma, normal_wgmma, swap_ab, both, all };
LayoutRequest parse_layout_request(std::string_view text);  // throws BadInput

/// What an FP8 kernel without Swap-AB runs in place of this swap_ab choice: a block of fewer than 64 tokens
/// is below the 64-row M of wgmma and goes to mma.sync with FP8 converted; from 64 on it is wgmma itself.
Layout true_baseline(const Choice& swap);

/// The choices of one problem, tiles settled; the baseline comes before swap_ab. Under `both` a given tile
/// whose block_m the baseline does not have is raised to its next one.
std::vector<Choice> choices_for(LayoutRequest request, const Choice& given, const Problem& problem,
                                const ExpertLoad& load);

/// Throws BadInput for a tile that no sm_90 kernel can have: more than 227 KB of shared memory at two stages
/// (or at the stages it names).
void validate_tile(const TileConfig& tile);

}  // namespace moe::harness
