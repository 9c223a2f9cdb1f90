// SPDX-License-Identifier: Apache-2.0

// Defines the flags, writes them into a job spec over the preset, and derives the engine spec by
// the rules of job specs. Those choose slices and splits that were not given, if the schedule takes
// any. The number of operations is bounded, so that no combination needs absurd memory or time.

#include "worker/bench/options/spec_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/base/status_macros.h"
#include "proto/spec/architecture.h"
#include "proto/spec/fields.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/schedules.h"
#include "worker/bench/options/flags.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::bench {
namespace {

// The number of operations is proportional to this product; beyond it a simulation takes minutes
// and gigabytes.
constexpr int64_t kMaxLayerPasses = 1 << 15;

// Accepts the range of the field in a job spec.
CLI::Validator WithinRangeOf(const char* field) {
  const Range& range = RangeOf(field);
  return Integer(static_cast<int64_t>(range.low), static_cast<int64_t>(range.high));
}

void AddModelFlags(CLI::App& app, SpecFlags& f) {
  const std::string group = "Model";
  app.add_option("--model", f.preset,
                 absl::StrCat("model preset: ", absl::StrJoin(PresetNames(), ", ")))
      ->check(OneOf(PresetNames()))
      ->capture_default_str()
      ->group(group);
  auto shape = [&](const char* flag, int& value, const char* field, const char* help) {
    app.add_option(flag, value, absl::StrCat(help, " (default: the preset's)"))
        ->check(WithinRangeOf(field))
        ->group(group);
  };
  shape("--layers", f.layers, "model.layers", "number of layers");
  shape("--hidden", f.hidden, "model.hidden", "width of the model");
  shape("--heads", f.heads, "model.heads", "number of attention heads");
  shape("--kv-heads", f.kv_heads, "model.kv_heads", "number of key and value heads");
  shape("--ffn", f.ffn, "model.ffn_hidden", "width of the MLP");
  shape("--sequence", f.sequence, "model.sequence_length", "length of a sequence in tokens");
  shape("--vocab", f.vocab, "model.vocab_size", "size of the vocabulary in tokens");
  app.add_option("--family", f.family,
                 absl::StrCat("model family: ", absl::StrJoin(FamilyNames(), " or "),
                              " (default: the preset's)"))
      ->check(OneOf(FamilyNames()))
      ->group(group);
  app.add_option("--dtype", f.dtype, "type of weights and activations: f32 or bf16")
      ->check(OneOf({NameOf(DType::kF32), NameOf(DType::kBF16)}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--micro-batch", f.micro_batch, "number of sequences in a micro-batch")
      ->check(WithinRangeOf("micro_batch_size"))
      ->capture_default_str()
      ->group(group);
  app.add_option("--micro-batches", f.micro_batches, "number of micro-batches in a step")
      ->check(Integer(1, 1 << 16))
      ->capture_default_str()
      ->group(group);
}

void AddScheduleFlags(CLI::App& app, SpecFlags& f) {
  const std::string group = "Schedule";
  app.add_option("--schedule", f.schedule,
                 absl::StrCat("schedule: ", absl::StrJoin(ScheduleNames(), ", ")))
      ->check(OneOf(ScheduleNames()))
      ->capture_default_str()
      ->group(group);
  const auto count = [&](const char* flag, int& value, int low, const char* help) {
    return app.add_option(flag, value, help)->check(Integer(low, 1 << 16))->group(group);
  };
  count("--tp", f.tp, 1, "number of tensor-parallel ranks")->capture_default_str();
  const char* cut = " (default: 2 if the schedule takes them)";
  count("--slices", f.slices, 1,
        "number of row slices of a micro-batch (default: 2 if the schedule needs them, else 1)");
  count("--splits", f.splits, 1,
        absl::StrCat("number of column pieces of each product before a collective", cut).c_str());
  count("--defer-wgrads", f.defer_wgrads, 0,
        "number of collectives by which weight gradients are deferred")
      ->capture_default_str();
  count("--merge-wgrads", f.merge_wgrads, 0,
        "number of micro-batches whose slices share one weight gradient product; 0: do not merge")
      ->capture_default_str();
  app.add_flag("--sequence-parallel", f.sequence_parallel,
               "use reduce-scatter and all-gather instead of all-reduce")
      ->group(group);
  app.add_option("--wire", f.wire, "type on the link: f32 or bf16 (default: that of --dtype)")
      ->check(OneOf({NameOf(DType::kF32), NameOf(DType::kBF16)}))
      ->group(group);
  app.add_option("--recompute", f.recompute, "recomputation in backward: none, selective or full")
      ->check(OneOf(
          {NameOf(Recompute::kNone), NameOf(Recompute::kSelective), NameOf(Recompute::kFull)}))
      ->capture_default_str()
      ->group(group);
}

absl::Status FlagError(absl::string_view flag, int found, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": found ", found, ", expected ", expected));
}

v1alpha1::Precision PrecisionOf(const std::string& name) {
  return name == NameOf(DType::kBF16) ? v1alpha1::PRECISION_BF16 : v1alpha1::PRECISION_F32;
}

v1alpha1::Recompute RecomputeOf(const std::string& name) {
  if (name == NameOf(Recompute::kSelective)) return v1alpha1::RECOMPUTE_SELECTIVE;
  return name == NameOf(Recompute::kFull) ? v1alpha1::RECOMPUTE_FULL : v1alpha1::RECOMPUTE_NONE;
}

// Applies the flags to the dimensions of the preset.
v1alpha1::ModelSpec ModelMessage(const SpecFlags& f) {
  v1alpha1::ModelSpec model;
  model.set_preset(f.preset);
  spec::ExpandPreset(&model);
  model.clear_preset();
  if (model.kv_heads() == model.heads()) model.clear_kv_heads();  // follows heads
  if (f.layers > 0) model.set_layers(f.layers);
  if (f.hidden > 0) model.set_hidden(f.hidden);
  if (f.heads > 0) model.set_heads(f.heads);
  if (f.kv_heads > 0) model.set_kv_heads(f.kv_heads);
  if (f.ffn > 0) model.set_ffn_hidden(f.ffn);
  if (f.sequence > 0) model.set_sequence_length(f.sequence);
  if (f.vocab > 0) model.set_vocab_size(f.vocab);
  if (!f.family.empty()) {
    const Architecture& architecture = *FindArchitecture(f.family);
    model.set_family(static_cast<v1alpha1::Family>(static_cast<int>(architecture.family)));
    if (architecture.positions != PositionKind::kRotary) model.clear_rotary_base();
  }
  return model;
}

// Schedules without slices or splits effectively have one, so a value of one is accepted for all.
v1alpha1::ScheduleSpec ScheduleMessage(const SpecFlags& f) {
  v1alpha1::ScheduleSpec schedule;
  schedule.set_name(f.schedule);
  schedule.set_plan(f.plan);
  v1alpha1::ScheduleParameters& parameters = *schedule.mutable_parameters();
  const ScheduleRules& rules = *FindSchedule(f.schedule);
  if (f.slices > 1 || rules.sliced()) parameters.set_slices(f.slices);
  if (f.splits > 1 || rules.splits) parameters.set_splits(f.splits);
  parameters.set_sequence_parallel(f.sequence_parallel);
  parameters.set_recompute(RecomputeOf(f.recompute));
  parameters.set_defer_wgrads(f.defer_wgrads);
  parameters.set_merge_wgrads(f.merge_wgrads);
  return schedule;
}

absl::Status CheckSize(const SpecFlags& f, const EngineSpec& spec) {
  const int64_t passes = int64_t{spec.model.layers} * f.micro_batches * spec.schedule.splits *
                         static_cast<int64_t>(spec.schedule.slices.size());
  if (passes <= kMaxLayerPasses) return absl::OkStatus();
  return FlagError(
      "--micro-batches", f.micro_batches,
      absl::StrCat("at most ", kMaxLayerPasses,
                   " for layers x micro-batches x slices x splits, which is ", passes));
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const ValueText& preset : PresetValues()) names.push_back(preset.name);
  return names;
}

void AddSpecFlags(CLI::App& app, SpecFlags& flags) {
  AddModelFlags(app, flags);
  AddScheduleFlags(app, flags);
}

ModelSpec ModelOf(const SpecFlags& f) {
  v1alpha1::JobSpec spec;
  *spec.mutable_model() = ModelMessage(f);
  return trainer::ModelFrom(spec::Normalize(spec).model());
}

absl::StatusOr<EngineSpec> SpecOf(const SpecFlags& f) {
  v1alpha1::JobSpec spec;
  *spec.mutable_model() = ModelMessage(f);
  *spec.mutable_schedule() = ScheduleMessage(f);
  spec.mutable_parallelism()->set_tp_size(f.tp);
  spec.mutable_parallelism()->set_dp_size(f.dp);
  spec.mutable_parallelism()->set_zero(f.zero);
  spec.mutable_parallelism()->set_pp_size(f.pp);
  if (f.pp > 1) {
    spec.mutable_parallelism()->set_chunks_per_stage(f.chunks);
    spec.mutable_schedule()->mutable_pipeline()->set_order(f.pipeline);
  }
  spec.set_precision(PrecisionOf(f.dtype));
  if (!f.wire.empty()) spec.mutable_parallelism()->set_wire(PrecisionOf(f.wire));
  spec.set_micro_batch_size(f.micro_batch);
  const int64_t sequences = int64_t{f.micro_batch} * f.micro_batches * f.dp;
  spec.set_global_batch_size(
      static_cast<int>(std::min<int64_t>(sequences, std::numeric_limits<int>::max())));
  spec.set_steps(1);
  spec.mutable_data()->set_prefix("random");
  ASSIGN_OR_RETURN(EngineSpec engine, trainer::EngineSpecFrom(spec));
  RETURN_IF_ERROR(CheckSize(f, engine));
  return engine;
}

std::string TitleOf(const SpecFlags& f) {
  const bool changed =
      f.layers + f.hidden + f.heads + f.kv_heads + f.ffn + f.sequence + f.vocab > 0 ||
      !f.family.empty();
  return changed ? absl::StrCat(f.preset, ", changed") : f.preset;
}

nlohmann::ordered_json WorkOf(const EngineSpec& spec) {
  const ModelSpec& model = spec.model;
  return {{"family", model.architecture.name},
          {"layers", model.layers},
          {"hidden", model.hidden},
          {"heads", model.heads},
          {"kv_heads", model.key_heads()},
          {"ffn_hidden", model.ffn_hidden},
          {"sequence_length", model.sequence_length},
          {"vocab_size", model.vocab_size},
          {"padded_vocab", model.padded_vocab()},
          {"micro_batch_size", spec.micro_batch_size},
          {"micro_batches", spec.micro_batches}};
}

void AddOrdersFlag(CLI::App& app, const std::string& flag, const std::string& help,
                   const std::vector<std::string>& known, std::vector<std::string>& orders) {
  app.add_option(flag, orders, help)->delimiter(',')->check(OneOf(known))->group("Schedule");
}

absl::Status ExpectEachOnce(const std::string& flag, const std::vector<std::string>& orders) {
  for (const std::string& order : orders) {
    if (std::count(orders.begin(), orders.end(), order) == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": found ", order, " twice, expected each order once"));
  }
  return absl::OkStatus();
}

bool TakesChunks(const std::string& order) {
  const PipelineRules* rules = FindPipeline(order.substr(0, order.find('+')));
  return rules != nullptr && rules->chunked && !rules->folds;
}

bool IsFolded(const std::string& order) {
  const PipelineRules* rules = FindPipeline(order);
  return rules != nullptr && rules->folds;
}

const char* WeavingSchedule() {
  return std::find_if(kSchedules.begin(), kSchedules.end(),
                      [](const ScheduleRules& rules) { return rules.weaves; })
      ->name;
}

absl::Status ExpectUnwoven(const SpecFlags& flags) {
  if (!FindSchedule(flags.schedule)->weaves) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--schedule: found ", flags.schedule,
                                                 ", expected a schedule without weaving; ",
                                                 "order folded always runs ", WeavingSchedule()));
}

void Unweave(SpecFlags* flags) {
  if (!FindSchedule(flags->schedule)->weaves) return;
  flags->schedule = SpecFlags{}.schedule;
  flags->slices = 0;
  flags->plan.clear();
}

std::vector<SpecFlags> RowsOf(const SpecFlags& flags, const std::string& order,
                              const std::vector<int>& chunks) {
  SpecFlags row = flags;
  if (FindPipeline(order) != nullptr) row.pipeline = order;
  if (IsFolded(order)) {
    row.schedule = WeavingSchedule();
    row.chunks = 2;
  }
  if (!TakesChunks(order)) return {row};
  std::vector<SpecFlags> rows;
  for (int count : chunks) {
    row.chunks = count;
    rows.push_back(row);
  }
  return rows;
}

absl::Status ExpectChunks(const std::string& flag, const std::vector<std::string>& orders,
                          const std::vector<int>& chunks) {
  const auto chunked = std::find_if(orders.begin(), orders.end(), TakesChunks);
  if (chunks.empty() && chunked != orders.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": found ", *chunked, ", expected --chunks with it"));
  }
  if (!chunks.empty() && !orders.empty() && chunked == orders.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--chunks: found ", chunks.front(), ", expected an order of ", flag, " that takes chunks"));
  }
  return absl::OkStatus();
}

absl::Status NameFlags(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrReplaceAll(status.message(),
                          {{"spec.model.layers", "--layers"},
                           {"spec.model.hidden", "--hidden"},
                           {"spec.model.heads", "--heads"},
                           {"spec.model.kv_heads", "--kv-heads"},
                           {"spec.model.ffn_hidden", "--ffn"},
                           {"spec.model.sequence_length", "--sequence"},
                           {"spec.model.vocab_size", "--vocab"},
                           {"spec.parallelism.tp_size", "--tp"},
                           {"spec.parallelism.dp_size", "--dp"},
                           {"spec.parallelism.zero", "--zero"},
                           {"spec.parallelism.pp_size", "--pp"},
                           {"spec.parallelism.chunks_per_stage", "--chunks"},
                           {"spec.parallelism.wire", "--wire"},
                           {"spec.micro_batch_size", "--micro-batch"},
                           {"micro_batch_size", "--micro-batch"},
                           {"spec.global_batch_size", "--micro-batch x --micro-batches"},
                           {"spec.schedule.name", "--schedule"},
                           {"spec.schedule.plan", "--plan"},
                           {"spec.schedule.parameters.slice_sizes", "--slices"},
                           {"spec.schedule.parameters.slices", "--slices"},
                           {"spec.schedule.parameters.splits", "--splits"},
                           {"spec.schedule.parameters.sequence_parallel", "--sequence-parallel"},
                           {"spec.schedule.parameters.recompute", "--recompute"},
                           {"spec.schedule.parameters.defer_wgrads", "--defer-wgrads"},
                           {"spec.schedule.parameters.merge_wgrads", "--merge-wgrads"}}));
}

}  // namespace stretto::bench
