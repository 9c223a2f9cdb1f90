// SPDX-License-Identifier: Apache-2.0

// Defines the flags with CLI11, checks them together, and derives the work: the unsliced spec, the
// schedules and the links to emulate.

#include "worker/bench/options/overlap_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/base/status_macros.h"
#include "proto/spec/schedules.h"
#include "worker/bench/options/costs_flag.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::bench {
namespace {

constexpr char kOverlapSummary[] =
    "Measures the schedules on this machine, with one process per rank. Rank 0 prints the result\n"
    "as one JSON object. A schedule is timed only if it is bitwise equal to its serial oracle.\n"
    "docs/BENCHMARKS.md defines every time; tests/bench/overlap_link.sh sets up the link.";

constexpr char kOverlapExample[] =
    "Example, in two terminals:\n"
    "  stretto-bench overlap --rendezvous /tmp/empty-folder --rank 0\n"
    "  stretto-bench overlap --rendezvous /tmp/empty-folder --rank 1\n"
    "One rank alone:\n"
    "  taskset -c 0 stretto-bench overlap --tp1\n"
    "One rank's share on one GPU, over emulated links with two bandwidths:\n"
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
  app.add_option("--model", o.preset, "model preset, which the flags below change (default: none)")
      ->check(OneOf(PresetNames()))
      ->group("Work");
  app.add_option("--family", o.family, "model family (default: the preset's, or gpt)")
      ->check(OneOf(FamilyNames()))
      ->group("Work");
  size("--layers", o.model.layers, "number of layers");
  size("--hidden", o.model.hidden, "width of the model");
  size("--heads", o.model.heads, "number of attention heads");
  const auto derived = [&](const char* flag, int& value, const char* help) {
    app.add_option(flag, value, help)->check(CLI::Range(1, 1 << 20))->group("Work");
  };
  derived("--kv-heads", o.model.kv_heads,
          "number of key and value heads (default: the preset's, or --heads)");
  derived("--ffn", o.model.ffn_hidden,
          "width of the MLP (default: the preset's, or four times --hidden)");
  size("--sequence", o.model.sequence_length, "length of a sequence in tokens");
  size("--vocab", o.model.vocab_size, "size of the vocabulary in tokens");
  size("--batch", o.batch, "number of sequences in a micro-batch");
  size("--micro-batches", o.micro_batches, "number of micro-batches in a step");
  type("--dtype", o.dtype, "type of weights and activations: f32 or bf16");
  type("--wire", o.wire, "type on the link: f32 or bf16");
}

void AddLinkFlags(CLI::App& app, OverlapOptions& o, bool& tp1) {
  app.add_flag("--tp1", tp1, "measure one rank alone: its step and its matrix products")
      ->group("Ranks");
  app.add_option("--rank", o.rank, "rank of this process")
      ->check(CLI::NonNegativeNumber)
      ->group("Ranks");
  app.add_option("--ranks", o.ranks, "number of ranks")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group("Ranks");
  app.add_option("--rendezvous", o.rendezvous, "empty folder in which the ranks find each other")
      ->check(CLI::ExistingDirectory)
      ->group("Ranks");
  app.add_option("--address", o.address, "numeric address of the network interface")
      ->capture_default_str()
      ->group("Ranks");
  app.add_option("--gbps", o.gbps,
                 "rate of the shaped link in Gbit/s, for the report and its checks")
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
  list("--link-latency-us", o.link_latency_us, Number(0, 1e9, "a number from 0 to 1e9"),
       "latency of a collective in microseconds (alpha)");
  list("--link-gbytes", o.link_gbytes, Number(1e-9, 1e9, "a number from 1e-9 to 1e9"),
       "bandwidth of an all-reduce in GB/s (beta)");
  list("--link-blocks", o.link_blocks, Integer(1, 1 << 10),
       "number of GPU blocks that a collective occupies (k)");
}

void AddScheduleFlags(CLI::App& app, OverlapOptions& o) {
  const auto list = [&](const char* flag, auto& values, const char* help) -> CLI::Option* {
    return app.add_option(flag, values, help)->delimiter(',')->group("Schedules");
  };
  list("--schedules", o.schedules,
       "schedules to measure (default: all that this number of micro-batches allows)")
      ->check(CLI::IsMember(ScheduleNames()));
  list("--divide", o.divisions,
       "numbers of micro-batches to try, into which the sequences of a step are divided evenly "
       "(default: --micro-batches)")
      ->check(CLI::Range(1, 1 << 20));
  list("--slices", o.slices, "numbers of slices to try")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  list("--splits", o.splits, "numbers of column pieces to try")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  list("--defer-wgrads", o.defer_wgrads, "deferrals of weight gradients to try")
      ->check(CLI::Range(0, 1 << 10))
      ->capture_default_str();
  list("--sequence-parallel", o.sequence_parallel, "sequence parallelism to try: 0, 1 or both")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  list("--plans", o.plans,
       "weave plans to try: default, and found and blocks, which need --costs (default: default, "
       "and found with --costs)")
      ->check(OneOf({"default", "found", "blocks"}));
  app.add_flag("--every-choice", o.every_choice,
               "measure every choice, not only the best one of each schedule")
      ->group("Schedules");
  app.add_option("--repeats", o.repeats, "number of rounds, of which times are medians")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--warm-up-steps", o.warm_up_steps,
                 "number of warm-up steps per program and round (default: 0, on a GPU 3)")
      ->check(CLI::Range(0, 1000));
  app.add_option("--steps", o.steps,
                 "number of counted steps per program and round (default: 1, on a GPU 5)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--json", o.json, "file for a copy of the result");
}

// A step has the sequences of --batch and --micro-batches however it is divided.
absl::Status CheckDivisions(const OverlapOptions& o) {
  const int sequences = o.batch * o.micro_batches;
  for (int micro_batches : o.divisions) {
    if (sequences % micro_batches == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--divide: found ", micro_batches, ", expected a divisor of ", sequences,
                     ", the sequences of a step (--batch times --micro-batches)"));
  }
  return absl::OkStatus();
}

// Renames the flags that are called otherwise in `sim` and `step`.
absl::Status CheckWork(const OverlapOptions& o) {
  const absl::Status status = NameFlags(trainer::Validate(o.Unsliced()));
  return absl::Status(
      status.code(),
      absl::StrReplaceAll(status.message(), {{"--micro-batch", "--batch"}, {"--tp", "--ranks"}}));
}

}  // namespace

EngineSpec OverlapOptions::Divided(int micro_batches) const {
  const int sequences = batch * this->micro_batches / micro_batches;
  EngineSpec spec;
  spec.model = model;
  spec.schedule.slices = {sequences};
  spec.tp_size = ranks;
  spec.dtype = TypeOf(dtype);
  spec.wire_dtype = TypeOf(wire);
  spec.micro_batch_size = sequences;
  spec.micro_batches = micro_batches;
  spec.library_attention = machine.library_attention();
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
  CLI::App app{kOverlapSummary, "stretto-bench overlap"};
  app.footer(kOverlapExample);
  AddWorkFlags(app, o);
  AddLinkFlags(app, o, tp1);
  AddMachineFlags(app, o.machine);
  AddEmulatedLinkFlags(app, o);
  AddScheduleFlags(app, o);
  std::string costs;
  AddCostsFlag(app, costs);
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
  RETURN_IF_ERROR(CheckDivisions(o));
  o.machine.tokens = int64_t{o.batch} * o.model.sequence_length;
  if (o.emulated()) {
    if (app.count("--warm-up-steps") == 0) o.warm_up_steps = 3;
    if (app.count("--steps") == 0) o.steps = 5;
    if (o.ranks == 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ranks: found 1 on --device ", o.machine.device,
                       ", expected at least 2: `stretto-bench step` is for one"));
    }
    for (const std::string& plan : o.plans) {
      if (plan == "default") continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--plans: found '", plan, "' on --device ", o.machine.device,
                       ", expected default: found and blocks need --costs"));
    }
  }
  if (!costs.empty() && (o.emulated() || o.ranks == 1)) {
    return absl::InvalidArgumentError(
        "--costs: found a file, expected none unless ranks on CPUs share a link");
  }
  ASSIGN_OR_RETURN(o.costs, ReadCosts(costs));
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
