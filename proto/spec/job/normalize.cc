// SPDX-License-Identifier: Apache-2.0

// Fills in the defaults of a spec: those of the preset, then values of the table, then those that
// follow from other fields.
#include "proto/spec/job/normalize.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "proto/spec/architecture.h"
#include "proto/spec/fields.h"
#include "proto/spec/job/places.h"
#include "proto/spec/job/takers.h"
#include "proto/spec/pipelines.h"
#include "proto/spec/presets.h"
#include "proto/spec/schedules.h"

namespace stretto::spec {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using v1alpha1::JobSpec;

template <class T>
T OrDefault(T value, T fallback) {
  return value == T{} ? fallback : value;
}

// Returns the nearest section above `path` that may be absent; empty if there is none.
std::string OptionalSection(absl::string_view path) {
  for (size_t dot = path.rfind('.'); dot != path.npos; dot = path.rfind('.')) {
    path = path.substr(0, dot);
    if (FindField(path)->optional) return std::string(path);
  }
  return "";
}

bool IsZero(const std::string& value) { return value == "0" || value == "false"; }

void FillValue(const Field& field, JobSpec* spec) {
  const std::string value = field.value;
  const FieldDescriptor& descriptor = *DescriptorOf(*spec->GetDescriptor(), field.path);
  // An absent number is 0 anyway.
  if (value.empty() || (IsZero(value) && !descriptor.has_presence())) return;
  if (!Takes(field.taker, *spec).value_or(false)) return;
  Message* parent = ParentOf(spec, field.path, /*make=*/OptionalSection(field.path).empty());
  if (parent == nullptr || parent->GetReflection()->HasField(*parent, &descriptor)) return;
  SetFromText(parent, descriptor, value);
}

void DeriveModel(v1alpha1::ModelSpec* model) {
  const Architecture* architecture = FindArchitecture(model->family());
  if (architecture == nullptr) return;
  model->set_kv_heads(OrDefault(model->kv_heads(), model->heads()));
  if (!model->has_tied_head()) model->set_tied_head(architecture->tied_head);
  if (model->ffn_hidden() == 0 && RangeOf("model.hidden").Contains(model->hidden())) {
    model->set_ffn_hidden(DefaultFfnHidden(*architecture, model->hidden()));
  }
}

void DeriveStages(v1alpha1::ParallelismSpec* parallelism) {
  for (v1alpha1::StageSpec& stage : *parallelism->mutable_stages()) {
    stage.set_tp_size(OrDefault(stage.tp_size(), parallelism->tp_size()));
    stage.set_dp_size(OrDefault(stage.dp_size(), parallelism->dp_size()));
  }
}

void DeriveSlices(JobSpec* spec) {
  if (!Takes(Taker::kSliced, *spec).value_or(false)) return;
  const ScheduleRules& rules = *FindSchedule(spec->schedule().name());
  v1alpha1::ScheduleParameters* parameters = spec->mutable_schedule()->mutable_parameters();
  const int micro = spec->micro_batch_size(), given = parameters->slice_sizes_size();
  parameters->set_slices(
      OrDefault(parameters->slices(), given > 0 ? given : rules.default_slices()));
  const int slices = parameters->slices();
  if (given > 0 || slices < 1 || slices > micro) return;
  for (int sequences : EvenSlices(micro, slices)) parameters->add_slice_sizes(sequences);
}

// A step that did not fit into memory does not fit the next time either.
void DeriveRestart(v1alpha1::RestartSpec* restart) {
  using v1alpha1::RestartSpec;
  for (v1alpha1::LayoutSpec& layout : *restart->mutable_layouts()) {
    layout.set_tp_size(OrDefault(layout.tp_size(), 1));
    layout.set_pp_size(OrDefault(layout.pp_size(), 1));
    layout.set_dp_size(OrDefault(layout.dp_size(), 1));
  }
  if (restart->on_size() > 0) return;
  for (const auto cause :
       {RestartSpec::CRASH, RestartSpec::NODE_LOSS, RestartSpec::HANG, RestartSpec::PREEMPTION}) {
    restart->add_on(cause);
  }
}

void DeriveSteps(JobSpec* spec) {
  const int64_t steps = StepsOfTokens(*spec);
  if (spec->steps() == 0 && steps > 0) spec->set_steps(steps);
}

void DeriveOptimizer(JobSpec* spec) {
  v1alpha1::OptimizerSpec* optimizer = spec->mutable_optimizer();
  const double rate = optimizer->learning_rate();
  if (!optimizer->has_min_learning_rate() && RangeOf("optimizer.learning_rate").Contains(rate)) {
    optimizer->set_min_learning_rate(0.1 * rate);
  }
  // A job that resumes keeps the schedule of the checkpoint, which its trainers read.
  if (!optimizer->has_decay_steps() && spec->checkpoint().resume_from().empty()) {
    optimizer->set_decay_steps(std::max<int64_t>(spec->steps(), 1));
  }
}

}  // namespace

int64_t StepsOfTokens(const JobSpec& spec) {
  const int64_t of_step = int64_t{spec.global_batch_size()} * spec.model().sequence_length();
  if (spec.tokens() <= 0 || of_step <= 0) return 0;
  return spec.tokens() / of_step + (spec.tokens() % of_step == 0 ? 0 : 1);
}

void ExpandPreset(v1alpha1::ModelSpec* model) {
  const ModelPreset* preset = FindPreset(model->preset().c_str());
  if (preset == nullptr) return;
  model->set_family(
      OrDefault(model->family(), static_cast<v1alpha1::Family>(static_cast<int>(preset->family))));
  model->set_layers(OrDefault(model->layers(), preset->layers));
  model->set_hidden(OrDefault(model->hidden(), preset->hidden));
  model->set_heads(OrDefault(model->heads(), preset->heads));
  model->set_kv_heads(OrDefault(model->kv_heads(), preset->kv_heads));
  model->set_ffn_hidden(OrDefault(model->ffn_hidden(), preset->ffn_hidden));
  model->set_sequence_length(OrDefault(model->sequence_length(), preset->sequence_length));
  model->set_vocab_size(OrDefault(model->vocab_size(), preset->vocab_size));
  model->set_rotary_base(OrDefault(model->rotary_base(), preset->rotary_base));
}

JobSpec Normalize(JobSpec spec) {
  ExpandPreset(spec.mutable_model());
  // Other fields ask for the number of stages.
  if (const int stages = spec.parallelism().stages_size(); stages > 0) {
    v1alpha1::ParallelismSpec* parallelism = spec.mutable_parallelism();
    parallelism->set_pp_size(OrDefault(parallelism->pp_size(), stages));
  }
  const PipelineRules* order = FindPipeline(spec.schedule().pipeline().order());
  if (order != nullptr && order->folds && spec.parallelism().pp_size() > 1) {
    v1alpha1::ParallelismSpec* parallelism = spec.mutable_parallelism();
    parallelism->set_chunks_per_stage(OrDefault(parallelism->chunks_per_stage(), 2));
  }
  for (const Field& field : JobFields()) FillValue(field, &spec);
  if (spec.has_parallelism()) DeriveStages(spec.mutable_parallelism());
  DeriveModel(spec.mutable_model());
  const int replicas = std::max(1, spec.parallelism().dp_size());
  if (const int64_t step = int64_t{spec.micro_batch_size()} * replicas;
      spec.global_batch_size() == 0 && step <= std::numeric_limits<int32_t>::max()) {
    spec.set_global_batch_size(static_cast<int32_t>(step));
  }
  if (v1alpha1::Precision_IsValid(spec.precision())) {
    v1alpha1::ParallelismSpec* parallelism = spec.mutable_parallelism();
    parallelism->set_wire(OrDefault(parallelism->wire(), spec.precision()));
  }
  DeriveSlices(&spec);
  DeriveSteps(&spec);
  DeriveOptimizer(&spec);
  if (spec.has_restart()) DeriveRestart(spec.mutable_restart());
  return spec;
}

JobSpec WithoutDefaults(const JobSpec& normalized) {
  JobSpec given = normalized;
  for (const Field& field : JobFields()) {
    JobSpec shorter = given;
    for (const Place& place : PlacesOf(shorter, field.path)) {
      // It is a part of `shorter`.
      auto* parent = const_cast<Message*>(place.parent);
      parent->GetReflection()->ClearField(parent, place.field);
    }
    const JobSpec again = Normalize(shorter);
    if (google::protobuf::util::MessageDifferencer::Equals(again, normalized))
      given = std::move(shorter);
  }
  return given;
}

}  // namespace stretto::spec
