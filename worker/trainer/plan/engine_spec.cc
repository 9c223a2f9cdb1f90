// SPDX-License-Identifier: Apache-2.0

// Converts messages to the engine's structs and back, field by field. A field of the engine is
// named once in each direction, except the numbers of a model, which their table names; defaults
// and rules are those of proto/spec.
#include "worker/trainer/plan/engine_spec.h"

#include <algorithm>

#include "proto/base/status_macros.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/ranks.h"
#include "proto/spec/job/validate.h"
#include "proto/spec/schedules.h"
#include "worker/engine/layout/layout.h"

namespace stretto::trainer {
namespace {

RotaryScaling ScalingFrom(const v1alpha1::RotaryScaling& spec) {
  using Kind = RotaryScaling::Kind;
  RotaryScaling scaling;
  if (spec.kind() == v1alpha1::RotaryScaling::KIND_UNSPECIFIED) return scaling;
  scaling.kind = spec.kind() == v1alpha1::RotaryScaling::LLAMA3 ? Kind::kLlama3 : Kind::kLinear;
  scaling.factor = spec.factor();
  if (scaling.kind == Kind::kLinear) return scaling;
  scaling.low_frequency_factor = spec.low_frequency_factor();
  scaling.high_frequency_factor = spec.high_frequency_factor();
  scaling.original_sequence_length = spec.original_sequence_length();
  return scaling;
}

v1alpha1::RotaryScaling MessageOf(const RotaryScaling& scaling) {
  v1alpha1::RotaryScaling message;
  const bool llama3 = scaling.kind == RotaryScaling::Kind::kLlama3;
  message.set_kind(llama3 ? v1alpha1::RotaryScaling::LLAMA3 : v1alpha1::RotaryScaling::LINEAR);
  message.set_factor(scaling.factor);
  if (!llama3) return message;
  message.set_low_frequency_factor(scaling.low_frequency_factor);
  message.set_high_frequency_factor(scaling.high_frequency_factor);
  message.set_original_sequence_length(scaling.original_sequence_length);
  return message;
}

// Both enums have the same values, except for the zero of the message.
Recompute RecomputeFrom(v1alpha1::Recompute recompute) {
  return static_cast<Recompute>(static_cast<int>(recompute) - 1);
}

ScheduleSpec ScheduleFrom(const v1alpha1::JobSpec& spec) {
  const v1alpha1::ScheduleParameters& parameters = spec.schedule().parameters();
  ScheduleSpec schedule{
      .name = spec.schedule().name(),
      .slices = {parameters.slice_sizes().begin(), parameters.slice_sizes().end()},
      .splits = std::max(1, parameters.splits()),
      .sequence_parallel = parameters.sequence_parallel(),
      .recompute = RecomputeFrom(parameters.recompute()),
      .defer_wgrads = parameters.defer_wgrads(),
      .merge_wgrads = parameters.auto_merge_wgrads() ? 1 : parameters.merge_wgrads(),
      .weave = spec.schedule().plan()};
  if (schedule.slices.empty()) schedule.slices = {spec.micro_batch_size()};
  if (spec.parallelism().pp_size() > 1) {
    const v1alpha1::PipelineSpec& pipeline = spec.schedule().pipeline();
    // Until the ranks have chosen warm-ups they are the fewest.
    schedule.pipeline = pipeline.auto_warm_up() ? kDefaultPipeline : pipeline.order();
    schedule.warm_up = {pipeline.warm_up().begin(), pipeline.warm_up().end()};
    if (pipeline.wgrad_delay() != v1alpha1::WGRAD_DELAY_UNSPECIFIED)
      schedule.wgrad_delay = static_cast<WgradDelay>(static_cast<int>(pipeline.wgrad_delay()) - 1);
    schedule.transfer = static_cast<Transfer>(static_cast<int>(pipeline.transfer()) - 1);
  }
  return schedule;
}

v1alpha1::PipelineSpec PipelineOf(const ScheduleSpec& schedule) {
  v1alpha1::PipelineSpec message;
  message.set_order(schedule.pipeline);
  for (int micro_batches : schedule.warm_up) message.add_warm_up(micro_batches);
  // Orders that do not take it have the first one.
  if (schedule.wgrad_delay != WgradDelay::kNone)
    message.set_wgrad_delay(
        static_cast<v1alpha1::WgradDelay>(static_cast<int>(schedule.wgrad_delay) + 1));
  message.set_transfer(static_cast<v1alpha1::Transfer>(static_cast<int>(schedule.transfer) + 1));
  return message;
}

// Schedules without slices or splits have one, which is not written.
v1alpha1::ScheduleSpec MessageOf(const ScheduleSpec& schedule) {
  v1alpha1::ScheduleSpec message;
  message.set_name(schedule.name);
  message.set_plan(schedule.weave);
  v1alpha1::ScheduleParameters& parameters = *message.mutable_parameters();
  const ScheduleRules* rules = FindSchedule(schedule.name);
  if (schedule.slices.size() != 1 || (rules != nullptr && rules->sliced())) {
    parameters.set_slices(static_cast<int>(schedule.slices.size()));
    for (int sequences : schedule.slices) parameters.add_slice_sizes(sequences);
  }
  if (schedule.splits != 1 || (rules != nullptr && rules->splits)) {
    parameters.set_splits(schedule.splits);
  }
  parameters.set_sequence_parallel(schedule.sequence_parallel);
  parameters.set_recompute(
      static_cast<v1alpha1::Recompute>(static_cast<int>(schedule.recompute) + 1));
  parameters.set_defer_wgrads(schedule.defer_wgrads);
  parameters.set_merge_wgrads(schedule.merge_wgrads);
  return message;
}

DType DTypeFrom(v1alpha1::Precision precision) {
  return precision == v1alpha1::PRECISION_BF16 ? DType::kBF16 : DType::kF32;
}
v1alpha1::Precision MessageOf(DType dtype) {
  return dtype == DType::kBF16 ? v1alpha1::PRECISION_BF16 : v1alpha1::PRECISION_F32;
}

const google::protobuf::FieldDescriptor* DescriptorOf(const ModelNumber& number) {
  return v1alpha1::ModelSpec::descriptor()->FindFieldByName(number.name);
}

}  // namespace

ModelSpec ModelFrom(const v1alpha1::ModelSpec& spec) {
  ModelSpec model{.architecture = *FindArchitecture(spec.family()),
                  .layers = spec.layers(),
                  .hidden = spec.hidden(),
                  .heads = spec.heads(),
                  .kv_heads = spec.kv_heads(),
                  .ffn_hidden = spec.ffn_hidden(),
                  .sequence_length = spec.sequence_length(),
                  .vocab_size = spec.vocab_size(),
                  .dropout = spec.dropout(),
                  .tied_head = spec.tied_head(),
                  .rotary_scaling = ScalingFrom(spec.rotary_scaling())};
  if (spec.rotary_base() != 0) model.rotary_base = spec.rotary_base();
  for (const ModelNumber& number : kModelNumbers) {
    model.*number.member = spec.GetReflection()->GetDouble(spec, DescriptorOf(number));
  }
  return model;
}

v1alpha1::ModelSpec MessageOf(const ModelSpec& model) {
  v1alpha1::ModelSpec message;
  message.set_family(static_cast<v1alpha1::Family>(static_cast<int>(model.architecture.family)));
  message.set_layers(model.layers);
  message.set_hidden(model.hidden);
  message.set_heads(model.heads);
  message.set_kv_heads(model.kv_heads == 0 ? model.heads : model.kv_heads);
  message.set_ffn_hidden(model.ffn_hidden);
  message.set_sequence_length(model.sequence_length);
  message.set_vocab_size(model.vocab_size);
  if (model.architecture.positions == PositionKind::kRotary) {
    message.set_rotary_base(model.rotary_base);
  }
  message.set_dropout(model.dropout);
  for (const ModelNumber& number : kModelNumbers) {
    message.GetReflection()->SetDouble(&message, DescriptorOf(number), model.*number.member);
  }
  message.set_tied_head(model.head_is_tied());
  if (model.rotary_scaling.kind != RotaryScaling::Kind::kNone) {
    *message.mutable_rotary_scaling() = MessageOf(model.rotary_scaling);
  }
  return message;
}

absl::StatusOr<EngineSpec> EngineSpecFrom(const v1alpha1::JobSpec& job) {
  const v1alpha1::JobSpec spec = spec::Normalize(job);
  RETURN_IF_ERROR(spec::Validate(spec));
  EngineSpec engine{.model = ModelFrom(spec.model()), .schedule = ScheduleFrom(spec)};
  engine.tp_size = spec.parallelism().tp_size();
  engine.dp_size = spec.parallelism().dp_size();
  engine.zero = spec.parallelism().zero();
  engine.pp_size = spec.parallelism().pp_size();
  engine.chunks_per_stage = std::max(1, spec.parallelism().chunks_per_stage());
  for (const v1alpha1::StageSpec& stage : spec.parallelism().stages())
    engine.stages.push_back(
        {.layers = stage.layers(), .tp_size = stage.tp_size(), .dp_size = stage.dp_size()});
  engine.dtype = DTypeFrom(spec.precision());
  engine.wire_dtype = DTypeFrom(spec.parallelism().wire());
  engine.micro_batch_size = spec.micro_batch_size();
  engine.micro_batches = spec::MicroBatchesOf(spec);
  if (spec.device() == v1alpha1::DEVICE_CUDA) {
    engine.library_attention =
        spec.deterministic() ? LibraryAttention::kRepeatable : LibraryAttention::kVarying;
  }
  engine.document_mask = spec.data().document_mask();
  // The first norm that is not finite ends the job before anything reads or saves the parameters,
  // so nobody can observe whether its update was skipped.
  engine.update_at_once =
      spec.optimizer().clip_norm() == 0 && spec.optimizer().max_skipped_updates() == 1;
  return engine;
}

v1alpha1::JobSpec JobSpecOf(const EngineSpec& engine) {
  v1alpha1::JobSpec spec;
  *spec.mutable_model() = MessageOf(engine.model);
  *spec.mutable_schedule() = MessageOf(engine.schedule);
  spec.mutable_parallelism()->set_tp_size(engine.tp_size);
  spec.mutable_parallelism()->set_dp_size(engine.dp_size);
  spec.mutable_parallelism()->set_zero(engine.zero);
  spec.mutable_parallelism()->set_pp_size(engine.pp_size);
  for (int stage = 0; stage < static_cast<int>(engine.stages.size()); ++stage) {
    v1alpha1::StageSpec* added = spec.mutable_parallelism()->add_stages();
    added->set_layers(engine.stages[static_cast<size_t>(stage)].layers);
    added->set_tp_size(TpSizeOf(engine, stage));
    added->set_dp_size(ReplicasOf(engine, stage));
  }
  if (engine.pp_size > 1) {
    spec.mutable_parallelism()->set_chunks_per_stage(engine.chunks_per_stage);
    *spec.mutable_schedule()->mutable_pipeline() = PipelineOf(engine.schedule);
  }
  if (engine.library_attention != LibraryAttention::kNone) spec.set_device(v1alpha1::DEVICE_CUDA);
  spec.set_deterministic(engine.library_attention == LibraryAttention::kRepeatable);
  spec.set_precision(MessageOf(engine.dtype));
  spec.mutable_parallelism()->set_wire(MessageOf(engine.wire_dtype));
  spec.set_micro_batch_size(engine.micro_batch_size);
  spec.set_global_batch_size(static_cast<int32_t>(engine.sequences_per_step()));
  if (engine.update_at_once) {
    spec.mutable_optimizer()->set_clip_norm(0);
    spec.mutable_optimizer()->set_max_skipped_updates(1);
  }
  spec.set_steps(1);
  spec.mutable_data()->set_prefix("data");
  spec.mutable_data()->set_document_mask(engine.document_mask);
  return spec;
}

absl::Status Validate(const EngineSpec& spec) { return EngineSpecFrom(JobSpecOf(spec)).status(); }

}  // namespace stretto::trainer
