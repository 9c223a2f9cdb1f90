// SPDX-License-Identifier: Apache-2.0

// Defines the flags with CLI11, checks them together, and derives the work: the unsliced spec, the
// schedules and the links to emulate.

#include "worker/bench/overlap/options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/base/status_macros.h"
#include "proto/spec/schedules.h"
#include "worker/bench/common/flags.h"
#include "worker/bench/common/spec_flags.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::bench {
namespace {

constexpr char kSummary[] =
    "Times the schedules on this machine, one process per rank, and prints one JSON object (rank "
    "0).\n"
    "Each schedule first shows that it computes what its serial oracle does, to the bit.\n"
    "docs/BENCHMARKS.md defines every time; tests/bench/overlap_link.sh makes the link.";

constexpr char kExample[] =
    "Example, in two terminals:\n"
    "  stretto-bench overlap --rendezvous /tmp/empty-folder --rank 0\n"
    "  stretto-bench overlap --rendezvous /tmp/empty-folder --rank 1\n"
    "and one rank alone, which needs no peer: taskset -c 0 stretto-bench overlap --tp1\n"
    "One rank's share on one GPU, over an emulated link of each of two bandwidths:\n"
    "  stretto-bench overlap --device cuda --model llama2-7b --layers 8 --ranks 8 --batch 2 \\\n"
    "    --dtype bf16 --wire bf16 --link-gbytes 135,270";

DType TypeOf(const std::string& name) {
  return name == NameOf(DType::kBF16) ? DType::kBF16 : DType::kF32;
}

void AddWorkFlags(CLI::App& app, OverlapOptions& o) {
  const auto size = [&](const char* flag, int& value, const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str()
        ->group("Work");
  };
  const auto type = [&](const char* flag, std::string& value, const char* help) {
    app.add_option(flag, value, help)
        ->check(CLI::IsMember({NameOf(DType::kF32), NameOf(DType::kBF16)}))
        ->capture_default_str()
        ->group("Work");
  };
  app.add_option("--model", o.preset, "preset, which the flags below change (default: none)")
      ->check(OneOf(PresetNames()))
      ->group("Work");
  app.add_option("--family", o.family, "family of the model (default: the preset's, or gpt)")
      ->check(OneOf(FamilyNames()))
      ->group("Work");
  size("--layers", o.model.layers, "layers");
  size("--hidden", o.model.hidden, "width");
  size("--heads", o.model.heads, "attention heads");
  const auto derived = [&](const char* flag, int& value, const char* help) {
    app.add_option(flag, value, help)->check(CLI::Range(1, 1 << 20))->group("Work");
  };
  derived("--kv-heads", o.model.kv_heads,
          "heads of keys and values (default: the preset's, or --heads)");
  derived("--ffn", o.model.ffn_hidden,
          "width of the MLP (default: the preset's, or four times --hidden)");
  size("--sequence", o.model.sequence_length, "tokens of a sequence");
  size("--vocab", o.model.vocab_size, "vocabulary");
  size("--batch", o.batch, "sequences of a step");
  type("--dtype", o.dtype, "type of activations and weights");
  type("--wire", o.wire, "type of activations on the wire");
}

void AddLinkFlags(CLI::App& app, OverlapOptions& o, bool& tp1) {
  app.add_flag("--tp1", tp1, "one rank alone: its step and its matrix products")->group("Ranks");
  app.add_option("--rank", o.rank, "this rank")->check(CLI::NonNegativeNumber)->group("Ranks");
  app.add_option("--ranks", o.ranks, "number of ranks")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group("Ranks");
  app.add_option("--rendezvous", o.rendezvous, "empty folder that all ranks see")
      ->check(CLI::ExistingDirectory)
      ->group("Ranks");
  app.add_option("--address", o.address, "numeric, of the interface to talk over")
      ->capture_default_str()
      ->group("Ranks");
  app.add_option("--gbps", o.gbps, "what the link was shaped to, for the report and its checks")
      ->check(CLI::NonNegativeNumber)
      ->group("Ranks");
}

void AddEmulatedLinkFlags(CLI::App& app, OverlapOptions& o) {
  const auto list = [&](const char* flag, auto& values, CLI::Validator check, const char* help) {
    app.add_option(flag, values, help)
        ->delimiter(',')
        ->check(check)
        ->capture_default_str()
        ->group("Emulated links, with --device cuda: every combination");
  };
  list("--link-latency-us", o.link_latency_us, Number(0, 1e9, "a number of at least 0"),
       "alpha: of a collective, before it transfers");
  list("--link-gbytes", o.link_gbytes, Number(1e-9, 1e9, "a number above 0"),
       "beta: GB/s of an all-reduce");
  list("--link-blocks", o.link_blocks, Integer(0, 1 << 10),
       "k: blocks that a collective keeps busy; 0: copies fill its time instead");
}

void AddScheduleFlags(CLI::App& app, OverlapOptions& o) {
  const auto list = [&](const char* flag, auto& values, const char* help) -> CLI::Option* {
    return app.add_option(flag, values, help)->delimiter(',')->group("Schedules");
  };
  list("--schedules", o.schedules, "names, by comma; all when left out")
      ->check(CLI::IsMember(ScheduleNames()));
  list("--slices", o.slices, "numbers of slices to try")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  list("--splits", o.splits, "numbers of column splits to try")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  list("--defer-wgrads", o.defer_wgrads, "deferrals of weight gradients to try")
      ->check(CLI::Range(0, 1 << 10))
      ->capture_default_str();
  list("--sequence-parallel", o.sequence_parallel, "0, 1 or both")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  app.add_flag("--every-choice", o.every_choice, "measure every choice, not only the best of each")
      ->group("Schedules");
  app.add_option("--repeats", o.repeats, "rounds; times are medians over them")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--warm-up-steps", o.warm_up_steps,
                 "steps of a program in a round that are not counted (default: 0, on a GPU 3)")
      ->check(CLI::Range(0, 1000));
  app.add_option("--steps", o.steps, "steps that are (default: 1, on a GPU 5)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", o.json, "file to write the result to as well");
}

// Renames the flags that are called otherwise in `sim` and `step`.
absl::Status CheckWork(const OverlapOptions& o) {
  const absl::Status status = NameFlags(trainer::Validate(o.Unsliced()));
  return absl::Status(
      status.code(),
      absl::StrReplaceAll(status.message(), {{"--micro-batch", "--batch"}, {"--tp", "--ranks"}}));
}

}  // namespace

EngineSpec OverlapOptions::Unsliced() const {
  EngineSpec spec;
  spec.model = model;
  spec.schedule.slices = {batch};
  spec.tp_size = ranks;
  spec.dtype = TypeOf(dtype);
  spec.wire_dtype = TypeOf(wire);
  spec.micro_batch_size = batch;
  return spec;
}

std::vector<EmulatedLinkOptions> OverlapOptions::Links() const {
  std::vector<EmulatedLinkOptions> links;
  for (double latency : link_latency_us) {
    for (double gbytes : link_gbytes) {
      for (int blocks : link_blocks) {
        links.push_back({.rank = rank,
                         .size = ranks,
                         .blocks = blocks,
                         .latency = absl::Microseconds(latency),
                         .bytes_per_second = gbytes * 1e9});
      }
    }
  }
  return links;
}

absl::StatusOr<OverlapOptions> ParseOverlapOptions(std::vector<std::string> arguments) {
  OverlapOptions o;
  bool tp1 = false;
  CLI::App app{kSummary, "stretto-bench overlap"};
  app.footer(kExample);
  AddWorkFlags(app, o);
  AddLinkFlags(app, o, tp1);
  AddMachineFlags(app, o.machine);
  AddEmulatedLinkFlags(app, o);
  AddScheduleFlags(app, o);
  ASSIGN_OR_RETURN(o.help, ParseFlags(app, std::move(arguments)));
  if (!o.help.empty()) return o;
  if (tp1) o.ranks = 1;
  const auto given = [&](const char* flag, int value) { return app.count(flag) > 0 ? value : 0; };
  if (!o.preset.empty()) {
    o.model = ModelOf({.preset = o.preset,
                       .family = o.family,
                       .layers = given("--layers", o.model.layers),
                       .hidden = given("--hidden", o.model.hidden),
                       .heads = given("--heads", o.model.heads),
                       .kv_heads = given("--kv-heads", o.model.kv_heads),
                       .ffn = given("--ffn", o.model.ffn_hidden),
                       .sequence = given("--sequence", o.model.sequence_length),
                       .vocab = given("--vocab", o.model.vocab_size)});
  } else {
    if (!o.family.empty()) o.model.architecture = *FindArchitecture(o.family);
    if (app.count("--ffn") == 0) o.model.ffn_hidden = 4 * o.model.hidden;
  }
  RETURN_IF_ERROR(CheckWork(o));
  if (o.emulated()) {
    if (app.count("--warm-up-steps") == 0) o.warm_up_steps = 3;
    if (app.count("--steps") == 0) o.steps = 5;
    if (o.ranks == 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ranks: found 1 on --device ", o.machine.device,
                       ", expected at least 2: `stretto-bench step` is for one"));
    }
  }
  if (o.rank >= o.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank: found ", o.rank, ", expected below --ranks, ", o.ranks));
  }
  if (o.ranks > 1 && o.rendezvous.empty() && !o.emulated()) {
    return absl::InvalidArgumentError("--rendezvous: found none, expected an empty folder");
  }
  return o;
}

}  // namespace stretto::bench
