// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/step_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/spec_flags.h"

namespace stretto::bench {
namespace {

constexpr char kStepSummary[] =
    "Trains a model on one device, including data and optimizer, and prints tokens per second,\n"
    "model FLOP/s utilisation and the ledger of a step. With --tp above 1 it trains one rank's\n"
    "share of the model over an emulated link. docs/BENCHMARKS.md defines every figure.";

struct Flags {
  SpecFlags spec = {.preset = "gpt3-2.7b", .dtype = "bf16", .tp = 1, .micro_batch = 8};
  int tokens = 131072;
  double peak_tflops = 0, latency_us = 12, gigabytes = 270;
};

void AddFlags(CLI::App& app, Flags& f, StepOptions& o) {
  AddSpecFlags(app, f.spec);
  AddMachineFlags(app, o.machine);
  app.add_option("--tokens", f.tokens,
                 "number of tokens in an optimizer step, which sets --micro-batches")
      ->check(Integer(1, 1 << 30))
      ->capture_default_str()
      ->excludes(app.get_option("--micro-batches"));
  app.add_option("--rank", o.rank, "rank to run, below --tp")
      ->check(Integer(0, 1 << 16))
      ->capture_default_str();
  const auto number = [&](const char* flag, double& value, const CLI::Validator& check,
                          const char* help) {
    return app.add_option(flag, value, help)->check(check);
  };
  number("--peak-tflops", f.peak_tflops, Number(1e-3, 1e6, "a number from 1e-3 to 1e6"),
         "dense peak rate of the device in Tflop/s (default: by its name)");
  const CLI::Validator seconds = Number(0, 1e6, "a number from 0 to 1e6");
  number("--warm-up-seconds", o.warm_up_seconds, seconds,
         "minimum duration of warm-up steps in seconds")
      ->capture_default_str();
  number("--seconds", o.seconds, seconds, "minimum duration of counted steps in seconds")
      ->capture_default_str();
  const std::string group = "Emulated link";
  number("--link-latency-us", f.latency_us, seconds,
         "latency of a collective in microseconds (alpha)")
      ->capture_default_str()
      ->group(group);
  number("--link-gbytes", f.gigabytes, Number(1e-9, 1e9, "a number from 1e-9 to 1e9"),
         "bandwidth of an all-reduce in GB/s (beta)")
      ->capture_default_str()
      ->group(group);
  app.add_option("--link-blocks", o.link.blocks,
                 "number of GPU blocks that a collective occupies (k)")
      ->check(Integer(1, 1 << 10))
      ->capture_default_str()
      ->group(group);
  app.add_option("--json", o.json, "file for a copy of the result as JSON");
}

// Returns the number of micro-batches that make up the tokens of a step.
absl::StatusOr<int> MicroBatchesOf(int tokens, const EngineSpec& spec) {
  const int64_t each = int64_t{spec.micro_batch_size} * spec.model.sequence_length;
  if (tokens % each == 0) return static_cast<int>(tokens / each);
  return absl::InvalidArgumentError(
      absl::StrCat("--tokens: found ", tokens, ", expected a multiple of a micro-batch's ", each,
                   " (", spec.micro_batch_size, " sequences of ", spec.model.sequence_length, ")"));
}

}  // namespace

absl::StatusOr<StepOptions> ParseStepOptions(const std::vector<std::string>& arguments) {
  StepOptions o;
  Flags f;
  CLI::App app{kStepSummary, "stretto-bench step"};
  app.footer("Example: stretto-bench step --device cuda --model gpt3-2.7b --micro-batch 8");
  AddFlags(app, f, o);
  ASSIGN_OR_RETURN(o.help, ParseFlags(app, arguments));
  if (!o.help.empty()) return o;
  o.model = TitleOf(f.spec);
  if (app.count("--micro-batches") == 0) {
    ASSIGN_OR_RETURN(const EngineSpec one, SpecOf(f.spec));
    ASSIGN_OR_RETURN(f.spec.micro_batches, MicroBatchesOf(f.tokens, one));
  }
  ASSIGN_OR_RETURN(o.spec, SpecOf(f.spec));
  o.spec.library_attention = o.machine.library_attention();
  o.machine.tokens = int64_t{o.spec.micro_batch_size} * o.spec.model.sequence_length;
  if (o.rank >= o.spec.tp_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rank: found ", o.rank, ", expected below --tp, ", o.spec.tp_size));
  }
  if (f.peak_tflops > 0) o.peak_flops = f.peak_tflops * 1e12;
  o.link.rank = o.rank;
  o.link.size = o.spec.tp_size;
  o.link.latency = absl::Microseconds(f.latency_us);
  o.link.bytes_per_second = f.gigabytes * 1e9;
  return o;
}

}  // namespace stretto::bench
