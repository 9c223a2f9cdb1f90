// Defines the flags and turns them into an engine spec. Sizes are bounded, so that no combination
// asks for absurd memory or time; slices and splits that were not given are chosen by asking the
// schedule what it takes.

#include "worker/bench/common/spec_flags.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/base/status_macros.h"
#include "proto/spec/presets.h"
#include "worker/bench/common/flags.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {
namespace {

// Bytes of such models still fit 63 bits.
constexpr int kMaxLayers = 1 << 12, kMaxWidth = 1 << 17, kMaxVocabulary = 1 << 20;
constexpr int kMaxMicroBatch = 1 << 10;

// Operations grow with this product; beyond it a simulation takes minutes and gigabytes.
constexpr int64_t kMaxLayerPasses = 1 << 15;

void AddModelFlags(CLI::App& app, SpecFlags& f) {
  const std::string group = "Model";
  app.add_option("--model", f.preset, absl::StrCat("preset: ", absl::StrJoin(PresetNames(), ", ")))
      ->check(OneOf(PresetNames()))
      ->capture_default_str()
      ->group(group);
  auto shape = [&](const char* flag, int& value, const char* help, int high = kMaxWidth) {
    app.add_option(flag, value, absl::StrCat(help, ", instead of the preset's"))
        ->check(Integer(1, high))
        ->group(group);
  };
  shape("--layers", f.layers, "layers", kMaxLayers);
  shape("--hidden", f.hidden, "width");
  shape("--heads", f.heads, "attention heads");
  shape("--kv-heads", f.kv_heads, "heads of keys and values");
  shape("--ffn", f.ffn, "width of the MLP");
  shape("--sequence", f.sequence, "tokens of a sequence");
  shape("--vocab", f.vocab, "vocabulary", kMaxVocabulary);
  app.add_option("--family", f.family,
                 absl::StrCat(absl::StrJoin(FamilyNames(), " or "), ", instead of the preset's"))
      ->check(OneOf(FamilyNames()))
      ->group(group);
  app.add_option("--dtype", f.dtype, "f32 or bf16")
      ->check(OneOf({NameOf(DType::kF32), NameOf(DType::kBF16)}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--micro-batch", f.micro_batch, "sequences of a micro-batch")
      ->check(Integer(1, kMaxMicroBatch))
      ->capture_default_str()
      ->group(group);
  app.add_option("--micro-batches", f.micro_batches, "micro-batches of a step")
      ->check(Integer(1, 1 << 16))
      ->capture_default_str()
      ->group(group);
}

void AddScheduleFlags(CLI::App& app, SpecFlags& f) {
  const std::string group = "Schedule";
  app.add_option("--schedule", f.schedule, absl::StrJoin(ScheduleNames(), ", "))
      ->check(OneOf(ScheduleNames()))
      ->capture_default_str()
      ->group(group);
  const auto count = [&](const char* flag, int& value, int low, const char* help) {
    return app.add_option(flag, value, help)->check(Integer(low, 1 << 16))->group(group);
  };
  count("--tp", f.tp, 1, "ranks that share each layer")->capture_default_str();
  const char* cut = " (default: 2 where the schedule takes them)";
  count("--slices", f.slices, 1, absl::StrCat("row slices of a micro-batch", cut).c_str());
  count("--splits", f.splits, 1,
        absl::StrCat("column pieces of each product before a collective", cut).c_str());
  count("--defer-wgrads", f.defer_wgrads, 0, "collectives that weight gradients are put off by")
      ->capture_default_str();
  count("--merge-wgrads", f.merge_wgrads, 0,
        "micro-batches whose slices share one weight gradient product, 0: each has its own")
      ->capture_default_str();
  app.add_flag("--sequence-parallel", f.sequence_parallel,
               "reduce-scatter and all-gather instead of all-reduce")
      ->group(group);
  app.add_option("--wire", f.wire, "f32 or bf16, the type on the link (default: as --dtype)")
      ->check(OneOf({NameOf(DType::kF32), NameOf(DType::kBF16)}))
      ->group(group);
  app.add_option("--recompute", f.recompute, "none, selective or full")
      ->check(OneOf(
          {NameOf(Recompute::kNone), NameOf(Recompute::kSelective), NameOf(Recompute::kFull)}))
      ->capture_default_str()
      ->group(group);
}

absl::Status FlagError(absl::string_view flag, int found, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": found ", found, ", expected ", expected));
}

DType DTypeOf(const std::string& name) { return name == "bf16" ? DType::kBF16 : DType::kF32; }

Recompute RecomputeOf(const std::string& name) {
  if (name == NameOf(Recompute::kSelective)) return Recompute::kSelective;
  return name == NameOf(Recompute::kFull) ? Recompute::kFull : Recompute::kNone;
}

// Whether the schedule takes these slices and splits: asked of it, with one layer.
bool Accepts(EngineSpec spec, int slices, int splits) {
  spec.model.layers = 1;
  spec.micro_batches = 1;
  spec.schedule = {.name = spec.schedule.name,
                   .slices = EvenSlices(spec.micro_batch_size, slices),
                   .splits = splits};
  return BuildPlan(spec, 0).ok();
}

// Slices and splits: what the flags say, else 2 where the schedule takes them, else 1.
void ChooseCut(const SpecFlags& f, EngineSpec* spec) {
  const auto either = [](int flag) {
    return flag > 0 ? std::vector<int>{flag} : std::vector<int>{2, 1};
  };
  for (int slices : either(f.slices)) {
    for (int splits : either(f.splits)) {
      spec->schedule.slices = EvenSlices(spec->micro_batch_size, slices);
      spec->schedule.splits = splits;
      if (Accepts(*spec, slices, splits)) return;
    }
  }
}

absl::Status CheckSize(const SpecFlags& f, const EngineSpec& spec) {
  const int64_t passes = int64_t{spec.model.layers} * f.micro_batches * spec.schedule.splits *
                         static_cast<int64_t>(spec.schedule.slices.size());
  if (passes <= kMaxLayerPasses) return absl::OkStatus();
  return FlagError("--micro-batches", f.micro_batches,
                   absl::StrCat("layers x micro-batches x slices x splits of at most ",
                                kMaxLayerPasses, ", not ", passes));
}

}  // namespace

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : kModelPresets) names.push_back(preset.name);
  return names;
}

void AddSpecFlags(CLI::App& app, SpecFlags& flags) {
  AddModelFlags(app, flags);
  AddScheduleFlags(app, flags);
}

ModelSpec ModelOf(const SpecFlags& f) {
  const ModelPreset& preset = *FindPreset(f.preset.c_str());
  const auto pick = [](int flag, int of_preset) { return flag > 0 ? flag : of_preset; };
  ModelSpec model;
  model.architecture =
      f.family.empty() ? ArchitectureOf(preset.family) : *FindArchitecture(f.family);
  model.layers = pick(f.layers, preset.layers);
  model.hidden = pick(f.hidden, preset.hidden);
  model.heads = pick(f.heads, preset.heads);
  model.kv_heads = pick(f.kv_heads, preset.kv_heads == preset.heads ? 0 : preset.kv_heads);
  model.ffn_hidden = pick(f.ffn, preset.ffn_hidden);
  model.sequence_length = pick(f.sequence, preset.sequence_length);
  model.vocab_size = pick(f.vocab, preset.vocab_size);
  model.rotary_base = pick(preset.rotary_base, model.rotary_base);
  return model;
}

absl::StatusOr<EngineSpec> SpecOf(const SpecFlags& f) {
  EngineSpec spec;
  spec.model = ModelOf(f);
  if (f.slices > f.micro_batch) {
    return FlagError("--slices", f.slices,
                     absl::StrCat("at most the ", f.micro_batch, " sequences of --micro-batch"));
  }
  spec.schedule.name = f.schedule;
  spec.schedule.sequence_parallel = f.sequence_parallel;
  spec.schedule.recompute = RecomputeOf(f.recompute);
  spec.schedule.defer_wgrads = f.defer_wgrads;
  spec.schedule.merge_wgrads = f.merge_wgrads;
  spec.tp_size = f.tp;
  spec.dtype = DTypeOf(f.dtype);
  spec.wire_dtype = DTypeOf(f.wire.empty() ? f.dtype : f.wire);
  spec.micro_batch_size = f.micro_batch;
  spec.micro_batches = f.micro_batches;
  ChooseCut(f, &spec);
  RETURN_IF_ERROR(CheckSize(f, spec));
  RETURN_IF_ERROR(Validate(spec));
  return spec;
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

absl::Status NameFlags(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrReplaceAll(status.message(), {{"model.layers", "--layers"},
                                             {"model.hidden", "--hidden"},
                                             {"model.heads", "--heads"},
                                             {"model.kv_heads", "--kv-heads"},
                                             {"model.ffn_hidden", "--ffn"},
                                             {"model.sequence_length", "--sequence"},
                                             {"model.vocab_size", "--vocab"},
                                             {"tp_size", "--tp"},
                                             {"micro_batch_size", "--micro-batch"},
                                             {"micro_batches", "--micro-batches"},
                                             {"schedule.name", "--schedule"},
                                             {"schedule.slice_sizes", "--slices"},
                                             {"schedule.slices", "--slices"},
                                             {"schedule.splits", "--splits"},
                                             {"schedule.sequence_parallel", "--sequence-parallel"},
                                             {"schedule.recompute", "--recompute"},
                                             {"schedule.defer_wgrads", "--defer-wgrads"},
                                             {"schedule.merge_wgrads", "--merge-wgrads"},
                                             {": slices:", ": --slices:"},
                                             {": splits:", ": --splits:"},
                                             {": defer_wgrads:", ": --defer-wgrads:"}}));
}

}  // namespace stretto::bench
