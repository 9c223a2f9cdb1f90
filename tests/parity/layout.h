#pragma once
// Every axis along which a training of the parity tests varies, and the tiny models they train.

#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/engine/spec/spec.h"

namespace stretto::parity {

struct Layout {
  Family family = Family::kGpt;
  std::string schedule = "megatron_sync";
  int tp_size = 2;
  std::vector<int> slices = {4};  // sequences of each; their sum is the micro-batch
  int splits = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  double dropout = 0;
  bool merge_wgrads = false;
  int defer_wgrads = 0;
  int micro_batches = 1;
  DType dtype = DType::kF32;
  DType wire = DType::kF32;
};

// For names of parametrised tests: "gpt_domino_row_tp2_2_2_mb1_f32", and what is not the default.
inline std::string NameOfLayout(const ::testing::TestParamInfo<Layout>& info) {
  const Layout& layout = info.param;
  std::string name = NameOf(layout.family);
  name += "_" + layout.schedule + "_tp" + std::to_string(layout.tp_size);
  for (int sequences : layout.slices) name += "_" + std::to_string(sequences);
  if (layout.splits > 1) name += "_splits" + std::to_string(layout.splits);
  if (layout.sequence_parallel) name += "_sp";
  if (layout.recompute != Recompute::kNone) name += std::string("_") + NameOf(layout.recompute);
  if (layout.dropout > 0) name += "_dropout";
  if (layout.merge_wgrads) name += "_merge";
  if (layout.defer_wgrads > 0) name += "_defer" + std::to_string(layout.defer_wgrads);
  name += "_mb" + std::to_string(layout.micro_batches) + "_" + NameOf(layout.dtype);
  return layout.wire == DType::kF32 ? name : name + "_wire_" + NameOf(layout.wire);
}
inline void PrintTo(const Layout& layout, std::ostream* out) { *out << NameOfLayout({layout, 0}); }

// Models that train in milliseconds. The vocabulary has padding, on one rank of four a whole shard
// of it; Llama's queries are in groups of two.
inline ModelSpec ModelOf(Family family) {
  const bool gpt = family == Family::kGpt;
  return {.family = family,
          .layers = 2,
          .hidden = gpt ? 16 : 32,
          .heads = gpt ? 4 : 8,
          .kv_heads = 4,
          .ffn_hidden = 48,
          .sequence_length = 8,
          .vocab_size = 90};
}

inline EngineSpec SpecOf(const Layout& layout) {
  EngineSpec spec;
  spec.model = ModelOf(layout.family);
  spec.model.dropout = layout.dropout;
  spec.schedule = {.name = layout.schedule,
                   .slices = layout.slices,
                   .splits = layout.splits,
                   .sequence_parallel = layout.sequence_parallel,
                   .recompute = layout.recompute,
                   .defer_wgrads = layout.defer_wgrads,
                   .merge_wgrads = layout.merge_wgrads};
  spec.tp_size = layout.tp_size;
  spec.dtype = layout.dtype;
  spec.wire_dtype = layout.wire;
  spec.micro_batch_size = 0;
  for (int sequences : layout.slices) spec.micro_batch_size += sequences;
  spec.micro_batches = layout.micro_batches;
  return spec;
}

}  // namespace stretto::parity
