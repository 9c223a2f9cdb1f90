// SPDX-License-Identifier: Apache-2.0

// The hash is of a text. The first releases wrote their fields one by one; that part of the text
// never changes. A later field is appended by its row in the table, unless it has the default.
#include "proto/spec/job/hash.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/spec/architecture.h"
#include "proto/spec/fields.h"
#include "proto/spec/job/places.h"
#include "proto/spec/job/ranks.h"
#include "proto/spec/job/takers.h"

namespace stretto::spec {
namespace {

using v1alpha1::JobSpec;

// In the first releases every family had this value, even if it was not used.
constexpr int kFirstRotaryBase = 10000;

const char* NameOf(v1alpha1::Precision precision) {
  return precision == v1alpha1::PRECISION_BF16 ? "bf16" : "f32";
}

// Returns the options that differ from the family's default.
std::string OptionsOf(const v1alpha1::ModelSpec& model, const Architecture& architecture) {
  const v1alpha1::RotaryScaling& scaling = model.rotary_scaling();
  std::string text;
  if (model.norm_epsilon() != 1e-5)
    absl::StrAppendFormat(&text, ";epsilon=%.17g", model.norm_epsilon());
  if (model.tied_head() != architecture.tied_head)
    absl::StrAppend(&text, ";tied=", int{model.tied_head()});
  if (!model.has_rotary_scaling()) return text;
  const bool llama3 = scaling.kind() == v1alpha1::RotaryScaling::LLAMA3;
  absl::StrAppendFormat(&text, ";rotary=%s,%.17g", llama3 ? "llama3" : "linear", scaling.factor());
  if (llama3) {
    absl::StrAppendFormat(&text, ",%.17g,%.17g,%d", scaling.low_frequency_factor(),
                          scaling.high_frequency_factor(), scaling.original_sequence_length());
  }
  return text;
}

std::string ModelText(const v1alpha1::ModelSpec& model) {
  const Architecture& architecture = *FindArchitecture(model.family());
  const int base = model.rotary_base() > 0 ? model.rotary_base() : kFirstRotaryBase;
  return absl::StrCat(
      architecture.name, ";",
      absl::StrJoin({model.layers(), model.hidden(), model.heads(), model.kv_heads(),
                     model.ffn_hidden(), model.sequence_length(), model.vocab_size(), base},
                    ","),
      OptionsOf(model, architecture), ";", absl::StrFormat("%.17g", model.dropout()));
}

std::string ScheduleText(const JobSpec& spec) {
  const v1alpha1::ScheduleParameters& parameters = spec.schedule().parameters();
  std::vector<int> slices(parameters.slice_sizes().begin(), parameters.slice_sizes().end());
  if (slices.empty()) slices = {spec.micro_batch_size()};
  const int merged = parameters.auto_merge_wgrads() ? std::max(1, parameters.merge_wgrads())
                                                    : parameters.merge_wgrads();
  return absl::StrCat(absl::StrJoin(slices, ","), ";", std::max(1, parameters.splits()), ",",
                      int{parameters.sequence_parallel()}, ",", merged);
}

std::string OptimizerText(const v1alpha1::OptimizerSpec& o) {
  return absl::StrCat(absl::StrFormat("%.17g,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g",
                                      o.learning_rate(), o.min_learning_rate(), o.beta1(),
                                      o.beta2(), o.epsilon(), o.weight_decay(), o.clip_norm()),
                      ";", o.warmup_steps(), ",", o.decay_steps());
}

std::string DataText(const v1alpha1::DataSpec& data) {
  std::string text;
  if (data.blend_size() > 1) {
    const auto weight = [](std::string* out, const v1alpha1::BlendPart& part) {
      absl::StrAppendFormat(out, "%.17g", part.weight());
    };
    absl::StrAppend(&text, ";blend=", absl::StrJoin(data.blend(), ",", weight));
  }
  if (data.held_out() > 0) absl::StrAppendFormat(&text, ";held_out=%.17g", data.held_out());
  return text;
}

// Returns the fields that later releases added, of one kind.
std::string AddedText(const JobSpec& spec, InHash kind) {
  std::string text;
  for (const Field& field : JobFields()) {
    // A field that the spec does not take has no value, not the default one.
    if (field.in_hash != kind || Takes(field.taker, spec) == false) continue;
    JobSpec plain;
    google::protobuf::Message* parent = ParentOf(&plain, field.path, /*make=*/true);
    SetFromText(parent, *DescriptorOf(*spec.GetDescriptor(), field.path), field.value);
    const std::string fallback = PlacesOf(plain, field.path).front().text();
    for (const Place& place : PlacesOf(spec, field.path)) {
      if (place.text() == fallback) continue;
      absl::StrAppend(&text, ";", place.path, "=", place.text());
    }
  }
  return text;
}

// Returns what decides the results beyond rounding, apart from the model and the batch.
std::string TrainingText(const JobSpec& spec) {
  return absl::StrCat(
      absl::StrCat(NameOf(spec.precision()), ",", NameOf(spec.parallelism().wire())), ";",
      spec.seed(), ";", OptimizerText(spec.optimizer()),
      spec.device() == v1alpha1::DEVICE_CUDA ? ";cuda" : "", DataText(spec.data()),
      AddedText(spec, InHash::kAdded));
}

// "stages=5x4,3x2x1", nothing if stages are alike. The third number is that of replicas where it is
// not the job's.
std::string StagesText(const v1alpha1::ParallelismSpec& parallelism) {
  if (parallelism.stages().empty()) return "";
  const auto stage = [&](std::string* out, const v1alpha1::StageSpec& of) {
    absl::StrAppend(out, of.layers(), "x", of.tp_size());
    if (of.dp_size() > 0 && of.dp_size() != parallelism.dp_size())
      absl::StrAppend(out, "x", of.dp_size());
  };
  return absl::StrCat(";stages=", absl::StrJoin(parallelism.stages(), ",", stage));
}

std::string HashOfText(const std::string& text) {
  return absl::StrFormat("%08x%08x", Crc32c(text), Crc32c(text, 0x5eed));
}

}  // namespace

std::string HashOf(const JobSpec& spec) {
  return HashOfText(absl::StrCat(ModelText(spec.model()), ";", spec.parallelism().tp_size(), ",",
                                 spec.micro_batch_size(), ",", MicroBatchesOf(spec), ";",
                                 ScheduleText(spec), ";", TrainingText(spec),
                                 AddedText(spec, InHash::kLayout), StagesText(spec.parallelism())));
}

std::string MathHashOf(const JobSpec& spec) {
  return HashOfText(absl::StrCat("math;", ModelText(spec.model()), ";", spec.global_batch_size(),
                                 ";", TrainingText(spec)));
}

}  // namespace stretto::spec
