// What surrounds the MoE layers of a model? Sizes of the other layers, in elements of the whole model; with
// them and a number of ranks follow the bytes and FLOP of a step.
#pragma once
#include <span>
#include <string_view>

namespace moe::sim {

struct ServiceModel {
  std::string_view name;  // as a preset of fixtures/models
  int moe_layers = 0, attention_layers = 0, dense_layers = 0;
  int other_layers = 0;           // recurrent ones
  double attention_weights = 0;   // projections of one attention layer
  double kv_bytes = 0;            // a token and attention layer leave in the cache (16 bit)
  bool kv_on_every_rank = false;  // latent attention keeps one cache for all heads
  int kv_heads = 0;               // else the ranks share these
  double score_flop = 0;          // one query token against one token of the context, all heads
  double dense_weights = 0;       // of one dense layer
  double shared_weights = 0;      // of one MoE layer's shared experts
  double other_weights = 0;       // of one recurrent layer
  double other_state_bytes = 0;   // that it reads and writes a sequence and step
  double vocabulary = 0, hidden = 0;
  std::string_view source;
};

/// Models whose other layers are known, each with its source.
std::span<const ServiceModel> service_models();
/// By a preset's name; null where it is not known.
const ServiceModel* find_service_model(std::string_view name);

}  // namespace moe::sim
