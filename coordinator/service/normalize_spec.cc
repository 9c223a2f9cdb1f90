#include <algorithm>
#include <string>
#include <utility>

#include "coordinator/service/schedules.h"
#include "coordinator/service/spec_checks.h"
#include "coordinator/service/validate_spec.h"
#include "proto/spec/presets.h"

namespace stretto::service {
namespace {

using v1alpha1::JobSpec;

template <class T>
T OrDefault(T value, T fallback) {
  return value == T{} ? fallback : value;
}

int DefaultFfn(v1alpha1::Family family, int hidden) {
  if (family != v1alpha1::FAMILY_LLAMA) return 4 * hidden;
  return (8 * hidden / 3 + 255) / 256 * 256;
}

void NormalizeDimensions(v1alpha1::ModelSpec* model) {
  if (const ModelPreset* preset = FindPreset(model->preset().c_str())) {
    model->set_family(OrDefault(model->family(), FamilyOf(*preset)));
    model->set_layers(OrDefault(model->layers(), preset->layers));
    model->set_hidden(OrDefault(model->hidden(), preset->hidden));
    model->set_heads(OrDefault(model->heads(), preset->heads));
    model->set_kv_heads(OrDefault(model->kv_heads(), preset->kv_heads));
    model->set_ffn_hidden(OrDefault(model->ffn_hidden(), preset->ffn_hidden));
    model->set_sequence_length(OrDefault(model->sequence_length(), preset->sequence_length));
    model->set_vocab_size(OrDefault(model->vocab_size(), preset->vocab_size));
    model->set_rotary_base(OrDefault(model->rotary_base(), preset->rotary_base));
    return;
  }
  model->set_family(OrDefault(model->family(), v1alpha1::FAMILY_GPT));
  model->set_kv_heads(OrDefault(model->kv_heads(), model->heads()));
  if (model->family() == v1alpha1::FAMILY_LLAMA) {
    model->set_rotary_base(OrDefault(model->rotary_base(), 10000));
  }
  if (model->ffn_hidden() == 0 && model->hidden() > 0 && model->hidden() <= 1 << 20) {
    model->set_ffn_hidden(DefaultFfn(model->family(), model->hidden()));
  }
}

void NormalizeModel(v1alpha1::ModelSpec* model) {
  NormalizeDimensions(model);
  if (!model->has_norm_epsilon()) model->set_norm_epsilon(1e-5);
  if (!model->has_tied_head()) model->set_tied_head(model->family() == v1alpha1::FAMILY_GPT);
  if (model->rotary_scaling().kind() != v1alpha1::RotaryScaling::LLAMA3) return;
  v1alpha1::RotaryScaling* scaling = model->mutable_rotary_scaling();
  if (!scaling->has_low_frequency_factor()) scaling->set_low_frequency_factor(1);
  if (!scaling->has_high_frequency_factor()) scaling->set_high_frequency_factor(4);
}

void NormalizeSchedule(int32_t micro_batch_size, v1alpha1::ScheduleSpec* schedule) {
  if (schedule->name().empty()) schedule->set_name("megatron_sync");
  const ScheduleRules* rules = FindSchedule(schedule->name());
  if (rules == nullptr) return;
  auto* parameters = schedule->mutable_parameters();
  parameters->set_recompute(OrDefault(parameters->recompute(), v1alpha1::RECOMPUTE_NONE));
  if (rules->splits) parameters->set_splits(OrDefault(parameters->splits(), 2));
  if (!rules->sliced()) return;
  if (parameters->slices() == 0) {
    const int given = parameters->slice_sizes_size();
    parameters->set_slices(given > 0 ? given : 2);
  }
  const int32_t slices = parameters->slices();
  if (parameters->slice_sizes_size() > 0 || slices < 1 || slices > micro_batch_size) return;
  for (int32_t slice = 0; slice < slices; ++slice) {
    parameters->add_slice_sizes(micro_batch_size / slices + (slice < micro_batch_size % slices));
  }
}

void NormalizeOptimizer(int64_t steps, v1alpha1::OptimizerSpec* optimizer) {
  if (optimizer->name().empty()) optimizer->set_name("adamw");
  if (!optimizer->has_learning_rate()) optimizer->set_learning_rate(1e-3);
  if (!optimizer->has_min_learning_rate()) {
    optimizer->set_min_learning_rate(0.1 * optimizer->learning_rate());
  }
  if (!optimizer->has_beta1()) optimizer->set_beta1(0.9);
  if (!optimizer->has_beta2()) optimizer->set_beta2(0.95);
  if (!optimizer->has_epsilon()) optimizer->set_epsilon(1e-8);
  if (!optimizer->has_weight_decay()) optimizer->set_weight_decay(0.1);
  if (!optimizer->has_warmup_steps()) optimizer->set_warmup_steps(0);
  if (!optimizer->has_decay_steps()) optimizer->set_decay_steps(std::max<int64_t>(steps, 1));
  if (!optimizer->has_clip_norm()) optimizer->set_clip_norm(1.0);
  if (!optimizer->has_max_skipped_updates()) optimizer->set_max_skipped_updates(5);
}

}  // namespace

JobSpec NormalizeSpec(JobSpec spec) {
  NormalizeModel(spec.mutable_model());
  auto* parallelism = spec.mutable_parallelism();
  parallelism->set_tp_size(OrDefault(parallelism->tp_size(), 1));
  parallelism->set_pp_size(OrDefault(parallelism->pp_size(), 1));
  parallelism->set_dp_size(OrDefault(parallelism->dp_size(), 1));
  parallelism->set_ep_size(OrDefault(parallelism->ep_size(), 1));
  parallelism->set_cp_size(OrDefault(parallelism->cp_size(), 1));
  spec.set_global_batch_size(OrDefault(spec.global_batch_size(), spec.micro_batch_size()));
  NormalizeSchedule(spec.micro_batch_size(), spec.mutable_schedule());
  NormalizeOptimizer(spec.steps(), spec.mutable_optimizer());
  spec.set_precision(OrDefault(spec.precision(), v1alpha1::PRECISION_F32));
  parallelism->set_wire(OrDefault(parallelism->wire(), spec.precision()));
  spec.set_device(OrDefault(spec.device(), v1alpha1::DEVICE_CPU));
  spec.set_seed(OrDefault(spec.seed(), uint64_t{1234}));
  auto* checkpoint = spec.mutable_checkpoint();
  if (!checkpoint->has_keep()) checkpoint->set_keep(2);
  if (spec.has_eval()) {
    spec.mutable_eval()->set_batches(OrDefault(spec.eval().batches(), 10));
  }
  return spec;
}

}  // namespace stretto::service
