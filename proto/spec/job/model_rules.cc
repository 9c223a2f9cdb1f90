// SPDX-License-Identifier: Apache-2.0

// Rules between a model and its preset, and between a model and the ranks that share it.
#include "proto/spec/model_rules.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/spec/architecture.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/places.h"
#include "proto/spec/job/rules.h"

namespace stretto::spec {

void CheckPreset(const v1alpha1::ModelSpec& model, Violations* violations) {
  if (model.preset().empty()) {
    if (model.layers() != 0 || model.hidden() != 0 || model.heads() != 0) return;
    violations->Require(false, "model",
                        "found neither preset nor dimensions, expected a preset (`stretto explain "
                        "model.preset` lists them) or layers, hidden, heads, ...");
    return;
  }
  if (!CheckName("model.preset", model.preset(), violations)) return violations->Distrust("model");
  v1alpha1::ModelSpec preset;
  preset.set_preset(model.preset());
  ExpandPreset(&preset);
  preset.set_sequence_length(model.sequence_length());  // a spec may override it
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  preset.GetReflection()->ListFields(preset, &fields);
  bool same = true;
  for (const auto* field : fields) {
    const std::string path = absl::StrCat("model.", field->name());
    const std::string found = Place{path, &model, field}.text();
    const std::string expected = Place{path, &preset, field}.text();
    same &= violations->Expect(found == expected, path, found,
                               absl::StrCat("nothing, because preset ", preset.preset(), " sets ",
                                            expected, " (a preset or dimensions, not both)"));
  }
  if (!same) violations->Distrust("model");
}

void CheckModel(const v1alpha1::ModelSpec& model, Violations* violations) {
  if (!violations->Sound({"model"})) return;
  const bool llama3 = model.rotary_scaling().kind() == v1alpha1::RotaryScaling::LLAMA3;
  const v1alpha1::RotaryScaling& scaling = model.rotary_scaling();
  violations->Add(
      RuleBrokenBy({.architecture = *FindArchitecture(model.family()),
                    .layers = model.layers(),
                    .hidden = model.hidden(),
                    .heads = model.heads(),
                    .kv_heads = model.kv_heads(),
                    .ffn_hidden = model.ffn_hidden(),
                    .sequence_length = model.sequence_length(),
                    .vocab_size = model.vocab_size(),
                    .tied_head = model.tied_head(),
                    .low_frequency_factor = llama3 ? scaling.low_frequency_factor() : 0,
                    .high_frequency_factor = llama3 ? scaling.high_frequency_factor() : 0}));
}

namespace {

// What a pipeline does not have yet, and the layers that it needs.
void CheckStages(const v1alpha1::JobSpec& spec, Violations* violations) {
  const char* field = "parallelism.pp_size";
  const int stages = spec.parallelism().pp_size(), layers = spec.model().layers();
  if (!violations->Sound({field}) || stages == 1) return;
  if (violations->Sound({"model.layers"})) {
    violations->Expect(stages <= layers, field, stages,
                       absl::StrCat("at most the ", layers, " layers of the model"));
  }
  const auto without = [&](const char* path, bool fits, auto found, absl::string_view expected,
                           absl::string_view why) {
    if (!violations->Sound({path})) return;
    violations->Expect(fits, path, found, absl::StrCat(expected, " with pp_size above 1: ", why));
  };
  const int steps = spec.profile().steps();
  without("profile.steps", steps == 0, steps, "0",
          "the time of a stage without communication says nothing about a pipeline");
  const v1alpha1::ScheduleParameters& parameters = spec.schedule().parameters();
  const char* one = "backward of a stage is of one micro-batch";
  without("schedule.parameters.merge_wgrads", parameters.merge_wgrads() <= 1,
          parameters.merge_wgrads(), "at most 1", one);
  without("schedule.parameters.auto_merge_wgrads", !parameters.auto_merge_wgrads(), "true", "false",
          one);
}

// What a list of stages must agree with.
void CheckStageList(const v1alpha1::JobSpec& spec, Violations* violations) {
  const char* field = "parallelism.stages";
  const v1alpha1::ParallelismSpec& parallelism = spec.parallelism();
  const int stages = parallelism.stages_size();
  if (stages == 0 || !violations->Sound({field})) return;
  if (violations->Sound({"parallelism.pp_size"})) {
    violations->Expect(parallelism.pp_size() == stages, "parallelism.pp_size",
                       parallelism.pp_size(),
                       absl::StrCat("nothing, or the ", stages, " stages of parallelism.stages"));
  }
  int64_t layers = 0;
  for (const v1alpha1::StageSpec& stage : parallelism.stages()) layers += stage.layers();
  if (violations->Sound({"model.layers"})) {
    violations->Expect(
        layers == spec.model().layers(), field, absl::StrCat("stages of ", layers, " layers"),
        absl::StrCat("stages that together have the ", spec.model().layers(), " of the model"));
  }
}

// The replicas of a stage take equal numbers of the shares that the job's dp_size makes.
void CheckStageReplicas(const v1alpha1::ParallelismSpec& parallelism, int stage,
                        Violations* violations) {
  const std::string field = absl::StrCat("parallelism.stages[", stage, "].dp_size");
  if (!violations->Sound({field, "parallelism.dp_size"})) return;
  const int replicas = parallelism.stages(stage).dp_size(), shares = parallelism.dp_size();
  violations->Expect(shares % replicas == 0, field, replicas,
                     absl::StrCat("a divisor of parallelism.dp_size ", shares));
}

// The number of ranks that share a stage. `words`: it has an embedding or a head.
void CheckTpSize(const v1alpha1::ModelSpec& model, const std::string& field, int tp, bool words,
                 Violations* violations) {
  if (!violations->Sound({field})) return;
  const auto divides = [&](const char* path, absl::string_view name, int total) {
    if (!violations->Sound({path}) || total < 1) return;
    violations->Expect(total % tp == 0, field, tp, absl::StrCat("a divisor of ", name, " ", total));
  };
  divides("model.kv_heads", model.kv_heads() == model.heads() ? "heads" : "kv_heads",
          model.kv_heads());
  divides("model.ffn_hidden", "ffn_hidden", model.ffn_hidden());
  if (words)
    divides("model.vocab_size", "the padded vocabulary", PaddedVocabulary(model.vocab_size()));
}

}  // namespace

void CheckParallelism(const v1alpha1::JobSpec& spec, Violations* violations) {
  const v1alpha1::ParallelismSpec& parallelism = spec.parallelism();
  CheckStages(spec, violations);
  CheckStageList(spec, violations);
  if (parallelism.stages().empty()) {
    return CheckTpSize(spec.model(), "parallelism.tp_size", parallelism.tp_size(), true,
                       violations);
  }
  for (int i = 0; i < parallelism.stages_size(); ++i) {
    CheckStageReplicas(parallelism, i, violations);
    CheckTpSize(spec.model(), absl::StrCat("parallelism.stages[", i, "].tp_size"),
                parallelism.stages(i).tp_size(), i == 0 || i == parallelism.stages_size() - 1,
                violations);
  }
}

}  // namespace stretto::spec
