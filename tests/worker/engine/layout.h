// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every axis along which tests vary what the engine runs, and the spec that a layout of a model is.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "worker/engine/spec/spec.h"

namespace stretto {

struct Layout {
  Family family = Family::kGpt;
  std::string schedule = "megatron_sync";
  int tp_size = 2;
  int dp_size = 1;
  int zero = 0;
  int pp_size = 1;
  int chunks = 1;                      // of a stage
  std::vector<StageSpec> stages = {};  // pp_size of them, if they differ
  std::string pipeline = kDefaultPipeline;
  std::vector<int> warm_up = {};
  WgradDelay wgrad_delay = WgradDelay::kNone;
  Transfer transfer = Transfer::kAuto;
  std::vector<int> slices = {4};  // sequences of each; their sum is the micro-batch
  int splits = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::kNone;
  double dropout = 0;
  // The model's head tied where its family's is not, and the other way round; another epsilon;
  // rotary positions stretched.
  bool other_options = false;
  int merge_wgrads = 0;
  int defer_wgrads = 0;
  bool update_at_once = false;
  bool document_mask = false;
  int micro_batches = 1;
  int layers = 2;
  DType dtype = DType::kF32;
  DType wire = DType::kF32;
};

inline std::vector<Family> EveryFamily() {
  std::vector<Family> families;
  for (const Architecture& architecture : kArchitectures) families.push_back(architecture.family);
  return families;
}

inline int RoundUp(int count, int multiple) { return (count + multiple - 1) / multiple * multiple; }

// Returns the layout in an order of a pipeline. One of several chunks gets two in each stage, and
// as many layers and micro-batches as they need; a folded one also the schedule.
inline Layout InOrder(Layout layout, const std::string& order) {
  const PipelineRules& rules = *FindPipeline(order);
  layout.pipeline = order;
  if (!rules.chunked) return layout;
  layout.chunks = 2;
  layout.layers = std::max(layout.layers, layout.chunks * layout.pp_size);
  if (!rules.folds) {
    layout.micro_batches = RoundUp(layout.micro_batches, layout.pp_size);
    return layout;
  }
  layout.schedule = "helix";
  layout.layers = RoundUp(layout.layers, layout.chunks * layout.pp_size);
  layout.micro_batches = std::max(layout.micro_batches, layout.pp_size + 1);
  return layout;
}

// "gpt_domino_row_tp2_2_2_mb1_f32", and what is not the default.
inline std::string Describe(const Layout& layout) {
  std::string name = ArchitectureOf(layout.family).name;
  name += "_" + layout.schedule + "_tp" + std::to_string(layout.tp_size);
  if (layout.dp_size > 1) name += "_dp" + std::to_string(layout.dp_size);
  if (layout.zero > 0) name += "_zero" + std::to_string(layout.zero);
  if (layout.pp_size > 1) name += "_pp" + std::to_string(layout.pp_size) + "_" + layout.pipeline;
  if (layout.chunks > 1) name += "_chunks" + std::to_string(layout.chunks);
  for (const StageSpec& stage : layout.stages) {
    name += "_" + std::to_string(stage.layers) + "x" + std::to_string(stage.tp_size);
    if (stage.dp_size > 0) name += "x" + std::to_string(stage.dp_size);
  }
  if (layout.transfer != Transfer::kAuto) name += std::string("_") + NameOf(layout.transfer);
  for (int micro_batches : layout.warm_up) name += "_w" + std::to_string(micro_batches);
  if (layout.wgrad_delay != WgradDelay::kNone)
    name += std::string("_delay_") + NameOf(layout.wgrad_delay);
  for (int sequences : layout.slices) name += "_" + std::to_string(sequences);
  if (layout.splits > 1) name += "_splits" + std::to_string(layout.splits);
  if (layout.sequence_parallel) name += "_sp";
  if (layout.recompute != Recompute::kNone) name += std::string("_") + NameOf(layout.recompute);
  if (layout.dropout > 0) name += "_dropout";
  if (layout.other_options) name += "_other_options";
  if (layout.merge_wgrads > 0) name += "_merge" + std::to_string(layout.merge_wgrads);
  if (layout.defer_wgrads > 0) name += "_defer" + std::to_string(layout.defer_wgrads);
  if (layout.update_at_once) name += "_at_once";
  if (layout.document_mask) name += "_documents";
  name += "_mb" + std::to_string(layout.micro_batches);
  if (layout.layers != Layout{}.layers) name += "_layers" + std::to_string(layout.layers);
  name += std::string("_") + NameOf(layout.dtype);
  return layout.wire == DType::kF32 ? name : name + "_wire_" + NameOf(layout.wire);
}

// As Llama 3.2 has them, for short sequences: one wavelength in between, the others stretched.
inline void SetOtherOptions(ModelSpec* model) {
  model->norm_epsilon = 1e-6;
  model->tied_head = !model->architecture.tied_head;
  if (model->architecture.positions != PositionKind::kRotary) return;
  model->rotary_base = 100;
  model->rotary_scaling = {
      .kind = RotaryScaling::Kind::kLlama3, .factor = 8, .original_sequence_length = 16};
}

// Family, layers, dropout and options of the model are the layout's.
inline EngineSpec SpecOf(const Layout& layout, ModelSpec model) {
  EngineSpec spec;
  spec.model = std::move(model);
  spec.model.architecture = ArchitectureOf(layout.family);
  spec.model.layers = layout.layers;
  spec.model.dropout = layout.dropout;
  if (layout.other_options) SetOtherOptions(&spec.model);
  spec.schedule = {.name = layout.schedule,
                   .slices = layout.slices,
                   .splits = layout.splits,
                   .sequence_parallel = layout.sequence_parallel,
                   .recompute = layout.recompute,
                   .defer_wgrads = layout.defer_wgrads,
                   .merge_wgrads = layout.merge_wgrads,
                   .pipeline = layout.pipeline,
                   .warm_up = layout.warm_up,
                   .wgrad_delay = layout.wgrad_delay,
                   .transfer = layout.transfer};
  spec.tp_size = layout.tp_size;
  spec.dp_size = layout.dp_size;
  spec.zero = layout.zero;
  spec.pp_size = layout.pp_size;
  spec.chunks_per_stage = layout.chunks;
  spec.stages = layout.stages;
  spec.dtype = layout.dtype;
  spec.wire_dtype = layout.wire;
  spec.micro_batch_size = 0;
  for (int sequences : layout.slices) spec.micro_batch_size += sequences;
  spec.micro_batches = layout.micro_batches;
  spec.update_at_once = layout.update_at_once;
  spec.document_mask = layout.document_mask;
  return spec;
}

}  // namespace stretto
