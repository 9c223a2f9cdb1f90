#include "worker/trainer/plan/engine_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/spec/presets.h"

namespace stretto::trainer {
namespace {

RotaryScaling ScalingFrom(const v1alpha1::RotaryScaling& spec) {
  using Kind = RotaryScaling::Kind;
  RotaryScaling scaling;
  if (spec.kind() == v1alpha1::RotaryScaling::KIND_UNSPECIFIED) return scaling;
  scaling.kind = spec.kind() == v1alpha1::RotaryScaling::LLAMA3 ? Kind::kLlama3 : Kind::kLinear;
  scaling.factor = spec.factor();
  if (spec.has_low_frequency_factor()) scaling.low_frequency_factor = spec.low_frequency_factor();
  if (spec.has_high_frequency_factor())
    scaling.high_frequency_factor = spec.high_frequency_factor();
  scaling.original_sequence_length = spec.original_sequence_length();
  return scaling;
}

absl::StatusOr<ModelSpec> ModelFrom(const v1alpha1::ModelSpec& spec) {
  const int family = spec.family() == v1alpha1::FAMILY_UNSPECIFIED
                         ? static_cast<int>(kDefaultFamily)
                         : static_cast<int>(spec.family());
  const Architecture* architecture = FindArchitecture(family);
  if (architecture == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("model.family: found ", family, ", expected ",
                                                   absl::StrJoin(FamilyNames(), " or ")));
  }
  ModelSpec model{.architecture = *architecture,
                  .layers = spec.layers(),
                  .hidden = spec.hidden(),
                  .heads = spec.heads(),
                  .kv_heads = spec.kv_heads(),
                  .ffn_hidden = spec.ffn_hidden(),
                  .sequence_length = spec.sequence_length(),
                  .vocab_size = spec.vocab_size(),
                  .dropout = spec.dropout(),
                  .rotary_scaling = ScalingFrom(spec.rotary_scaling())};
  if (spec.has_norm_epsilon()) model.norm_epsilon = spec.norm_epsilon();
  if (spec.has_tied_head()) model.tied_head = spec.tied_head();
  if (spec.rotary_base() != 0) model.rotary_base = spec.rotary_base();
  if (spec.preset().empty()) return model;
  const ModelPreset* preset = FindPreset(spec.preset().c_str());
  if (preset == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.preset: found '", spec.preset(), "', expected a known preset"));
  }
  model.architecture = ArchitectureOf(preset->family);
  model.layers = preset->layers;
  model.hidden = preset->hidden;
  model.heads = preset->heads;
  model.kv_heads = preset->kv_heads;
  model.ffn_hidden = preset->ffn_hidden;
  if (model.sequence_length == 0) model.sequence_length = preset->sequence_length;
  model.vocab_size = preset->vocab_size;
  if (preset->rotary_base != 0) model.rotary_base = preset->rotary_base;
  return model;
}

Recompute RecomputeFrom(v1alpha1::Recompute recompute) {
  if (recompute == v1alpha1::RECOMPUTE_SELECTIVE) return Recompute::kSelective;
  return recompute == v1alpha1::RECOMPUTE_FULL ? Recompute::kFull : Recompute::kNone;
}

ScheduleSpec ScheduleFrom(const v1alpha1::JobSpec& spec) {
  const v1alpha1::ScheduleParameters& parameters = spec.schedule().parameters();
  ScheduleSpec schedule{
      .name = spec.schedule().name(),
      .splits = std::max(1, parameters.splits()),
      .sequence_parallel = parameters.sequence_parallel(),
      .recompute = RecomputeFrom(parameters.recompute()),
      .defer_wgrads = parameters.defer_wgrads(),
      .merge_wgrads = parameters.auto_merge_wgrads() ? 1 : parameters.merge_wgrads()};
  for (int size : parameters.slice_sizes()) schedule.slices.push_back(size);
  if (schedule.slices.empty()) {
    schedule.slices = EvenSlices(spec.micro_batch_size(), std::max(1, parameters.slices()));
  }
  return schedule;
}

DType DTypeFrom(v1alpha1::Precision precision) {
  return precision == v1alpha1::PRECISION_BF16 ? DType::kBF16 : DType::kF32;
}

}  // namespace

absl::StatusOr<EngineSpec> EngineSpecFrom(const v1alpha1::JobSpec& spec) {
  EngineSpec engine;
  ASSIGN_OR_RETURN(engine.model, ModelFrom(spec.model()));
  engine.schedule = ScheduleFrom(spec);
  engine.tp_size = spec.parallelism().tp_size();
  engine.dtype = DTypeFrom(spec.precision());
  const bool wire_is_given = spec.parallelism().wire() != v1alpha1::PRECISION_UNSPECIFIED;
  engine.wire_dtype = DTypeFrom(wire_is_given ? spec.parallelism().wire() : spec.precision());
  engine.micro_batch_size = spec.micro_batch_size();
  if (spec.micro_batch_size() < 1 || spec.global_batch_size() % spec.micro_batch_size() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("global_batch_size: found ", spec.global_batch_size(),
                     ", expected a multiple of micro_batch_size ", spec.micro_batch_size()));
  }
  engine.micro_batches = spec.global_batch_size() / spec.micro_batch_size();
  // The first norm that is not finite ends the job, before anything reads or saves the parameters:
  // skipping its update would show nowhere.
  engine.update_at_once =
      spec.optimizer().clip_norm() == 0 && spec.optimizer().max_skipped_updates() == 1;
  RETURN_IF_ERROR(Validate(engine));
  return engine;
}

}  // namespace stretto::trainer
