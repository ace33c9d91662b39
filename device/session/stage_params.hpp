// How do the words of a Problem become the parameters of kernels?
#pragma once
#include "device/kernels/act_quant_params.hpp"
#include "device/kernels/scale_rule.hpp"
#include "device/kernels/topk_route_params.hpp"
#include "device/session/device_rows.hpp"
#include "fixtures/problem/case.hpp"

namespace moe::device {

RouterRule router_rule(RouterKind kind);
ActivationRule activation_rule(const MoeShape& shape);
ScaleGranule granule_of(const QuantScheme& quant);

/// First id of the experts that the problem's rank owns.
inline int first_expert(const Problem& problem) { return problem.rank * problem.shape.local_experts(); }

/// Most scales of `rows` rows of `columns` codes: floats, whatever the layout.
std::int64_t scale_count(const QuantScheme& quant, std::int64_t rows, std::int64_t columns);

/// Canonical shape of the scales of `rows` rows: [rows, K/128], [rows] or [1].
std::vector<std::int64_t> canonical_scale_shape(const QuantScheme& quant, std::int64_t rows,
                                                std::int64_t columns);

/// Codes and scales in canonical order: packed scale rows.
QuantizedOut canonical_out(const QuantScheme& quant, const Rows& codes, Address scales);
/// Codes and scales in sorted order: MN-major block scales with `ld` rows.
QuantizedOut sorted_out(const QuantScheme& quant, const Rows& codes, Address scales, std::int64_t ld);

/// Uploads the router's inputs and allocates its outputs.
TopkRouteParams topk_params(Machine& machine, const Case& c, const TensorSet& inputs);

}  // namespace moe::device
