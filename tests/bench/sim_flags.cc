#include "tests/bench/sim_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/presets.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace {

// Bytes of such models still fit 63 bits.
constexpr int kMaxLayers = 1 << 12, kMaxWidth = 1 << 17, kMaxVocabulary = 1 << 20;
constexpr int kMaxMicroBatch = 1 << 10;

CLI::Validator Checked(const std::string& expected, bool (*parse)(const std::string&, double*),
                       double low, double high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value;
        if (parse(text, &value) && value >= low && value <= high) return "";
        return absl::StrCat("found ", text, ", expected ", expected);
      },
      "");
}

CLI::Validator Integer(int low, int high) {
  return Checked(
      absl::StrCat("an integer from ", low, " to ", high),
      [](const std::string& text, double* value) {
        int integer;
        if (!absl::SimpleAtoi(text, &integer)) return false;
        *value = integer;
        return true;
      },
      low, high);
}

CLI::Validator Number(double low, double high, const std::string& expected) {
  return Checked(
      expected,
      [](const std::string& text, double* value) { return absl::SimpleAtod(text, value); }, low,
      high);
}

CLI::Validator OneOf(std::vector<std::string> names) {
  return CLI::Validator(
      [names = std::move(names)](std::string& text) -> std::string {
        if (std::find(names.begin(), names.end(), text) != names.end()) return "";
        return absl::StrCat("found '", text, "', expected one of ", absl::StrJoin(names, ", "));
      },
      "");
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const ModelPreset& preset : kModelPresets) names.push_back(preset.name);
  return names;
}

void AddModelFlags(CLI::App& app, SimFlags& f) {
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
  app.add_option("--family", f.family, "gpt or llama, instead of the preset's")
      ->check(OneOf({NameOf(Family::kGpt), NameOf(Family::kLlama)}))
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

void AddScheduleFlags(CLI::App& app, SimFlags& f) {
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
  app.add_option("--recompute", f.recompute, "none, selective or full")
      ->check(OneOf(
          {NameOf(Recompute::kNone), NameOf(Recompute::kSelective), NameOf(Recompute::kFull)}))
      ->capture_default_str()
      ->group(group);
}

void AddMachineFlags(CLI::App& app, SimFlags& f) {
  const std::string group = "Machine, of each rank";
  auto number = [&](const char* flag, double& value, CLI::Validator check, const char* help) {
    app.add_option(flag, value, help)->check(check)->capture_default_str()->group(group);
  };
  const CLI::Validator rate = Number(1e-9, 1e12, "a number above 0"),
                       share = Number(0, 0.99, "a share from 0 to 0.99");
  number("--gflops", f.gflops, rate, "rate of matrix products, Gflop/s");
  number("--membw", f.membw, rate, "memory bandwidth, GB/s");
  number("--gbps", f.gbps, rate, "link, Gbit/s in each direction");
  number("--latency-us", f.latency_us, Number(0, 1e9, "a number of at least 0"),
         "latency of a step of the ring, microseconds");
  number("--contention", f.contention, share, "share of compute lost while a collective runs");
  number("--link-contention", f.link_contention, share,
         "share of the link lost while the rank computes");
  app.add_option("--wire", f.wire, "f32 or bf16, the type on the link (default: as --dtype)")
      ->check(OneOf({NameOf(DType::kF32), NameOf(DType::kBF16)}))
      ->group(group);
  app.add_option("--costs", f.costs,
                 "file of measured seconds, 'KEY SECONDS' a line, that go first")
      ->group(group);
}

void AddOutputFlags(CLI::App& app, SimFlags& f) {
  const std::string group = "Output";
  app.add_option("--grid", f.grid, "timeline to draw: layer, step or none")
      ->check(OneOf({"layer", "step", "none"}))
      ->capture_default_str()
      ->group(group);
  app.add_option("--layer", f.layer, "the layer to draw (default: the middle one)")
      ->check(Integer(0, 1 << 20))
      ->group(group);
  app.add_option("--columns", f.columns, "width of the timeline")
      ->check(Integer(20, 10000))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--json", f.json, "figures and ledger as JSON, no timeline")->group(group);
  app.add_flag("--reference", f.reference,
               "speed-ups of published orders in the two-stream model, and exit")
      ->group(group);
}

}  // namespace

void AddSimFlags(CLI::App& app, SimFlags& flags) {
  AddModelFlags(app, flags);
  AddScheduleFlags(app, flags);
  AddMachineFlags(app, flags);
  AddOutputFlags(app, flags);
}

}  // namespace stretto
