#include "tests/bench/sim_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "proto/base/files.h"
#include "proto/base/presets.h"
#include "proto/base/status_macros.h"
#include "tests/bench/sim_flags.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

// Operations grow with this product; beyond it a simulation takes minutes and gigabytes.
constexpr int64_t kMaxLayerPasses = 1 << 15;

constexpr char kExamples[] =
    "Times are those of a cost model, not of a machine: a computation takes flops / rate +\n"
    "bytes / bandwidth, a collective what a ring needs. One rank stands for all.\n\n"
    "Examples:\n"
    "  one layer of GPT-3 on eight GPUs, in slices:\n"
    "    stretto-bench sim --model gpt3-175b --tp 8 --dtype bf16 --schedule domino_row \\\n"
    "      --gflops 600000 --membw 3000 --gbps 3200 --latency-us 3\n"
    "  the same for a program to read:          ... --json\n"
    "  how much sharing a core costs:           ... --contention 0.2\n"
    "  the published orders against each other: stretto-bench sim --reference\n";

absl::Status FlagError(absl::string_view flag, int found, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": found ", found, ", expected ", expected));
}

DType DTypeOf(const std::string& name) { return name == "bf16" ? DType::kBF16 : DType::kF32; }

ModelSpec ModelOf(const SimFlags& f) {
  const ModelPreset& preset = *FindPreset(f.preset.c_str());
  const auto pick = [](int flag, int of_preset) { return flag > 0 ? flag : of_preset; };
  ModelSpec model;
  const bool llama =
      f.family.empty() ? preset.family == PresetFamily::kLlama : f.family == NameOf(Family::kLlama);
  model.family = llama ? Family::kLlama : Family::kGpt;
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
void ChooseCut(const SimFlags& f, EngineSpec* spec) {
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

absl::Status CheckSize(const SimFlags& f, const EngineSpec& spec) {
  const int64_t passes = int64_t{spec.model.layers} * f.micro_batches * spec.schedule.splits *
                         static_cast<int64_t>(spec.schedule.slices.size());
  if (passes <= kMaxLayerPasses) return absl::OkStatus();
  return FlagError("--micro-batches", f.micro_batches,
                   absl::StrCat("layers x micro-batches x slices x splits of at most ",
                                kMaxLayerPasses, ", not ", passes));
}

absl::StatusOr<EngineSpec> SpecOf(const SimFlags& f) {
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

absl::StatusOr<CostModel> CostsOf(const SimFlags& f) {
  CostModel cost;
  cost.machine = {.flops_per_second = f.gflops * 1e9, .bytes_per_second = f.membw * 1e9};
  cost.interconnect = {.bytes_per_second = f.gbps * 1e9 / 8,
                       .latency_seconds = f.latency_us * 1e-6};
  cost.contention = {.compute = f.contention, .communication = f.link_contention};
  if (!f.costs.empty()) {
    absl::StatusOr<std::string> text = ReadFile(f.costs);
    if (text.ok()) {
      ASSIGN_OR_RETURN(cost.table, CostTable::Parse(*text));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--costs: ", std::string(text.status().message())));
    }
  }
  return cost;
}

absl::StatusOr<SimOptions> Assemble(const SimFlags& f) {
  const bool changed =
      f.layers + f.hidden + f.heads + f.kv_heads + f.ffn + f.sequence + f.vocab > 0 ||
      !f.family.empty();
  SimOptions options{.reference = f.reference,
                     .json = f.json,
                     .model = changed ? absl::StrCat(f.preset, ", changed") : f.preset};
  if (f.reference) return options;
  ASSIGN_OR_RETURN(options.spec, SpecOf(f));
  ASSIGN_OR_RETURN(options.cost, CostsOf(f));
  options.grid = f.grid == "layer"  ? GridWindow::kLayer
                 : f.grid == "step" ? GridWindow::kStep
                                    : GridWindow::kNone;
  options.columns = f.columns;
  options.layer = f.layer >= 0 ? f.layer : options.spec.model.layers / 2;
  if (options.layer >= options.spec.model.layers) {
    return FlagError("--layer", f.layer,
                     absl::StrCat("one of the layers 0 to ", options.spec.model.layers - 1));
  }
  return options;
}

}  // namespace

std::string NameFlags(absl::string_view message) {
  return absl::StrReplaceAll(message, {{"model.layers", "--layers"},
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
                                       {": defer_wgrads:", ": --defer-wgrads:"}});
}

absl::StatusOr<SimOptions> ParseSimOptions(std::vector<std::string> arguments) {
  SimFlags flags;
  CLI::App app{"Simulate a schedule of a model.", "stretto-bench sim"};
  app.footer(kExamples);
  AddSimFlags(app, flags);
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the last one first
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return SimOptions{.help = app.help()};
  } catch (const CLI::ExtrasError&) {
    return absl::InvalidArgumentError(absl::StrCat("found '", absl::StrJoin(app.remaining(), " "),
                                                   "', expected flags of `stretto-bench sim "
                                                   "--help`"));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return Assemble(flags);
}

}  // namespace stretto
