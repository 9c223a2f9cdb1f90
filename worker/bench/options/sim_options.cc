// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/sim_options.h"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/sim_flags.h"

namespace stretto {
namespace {

constexpr char kSimExamples[] =
    "Times come from a cost model: a computation takes flops / rate + bytes / bandwidth, and a\n"
    "collective takes the time of a ring. One rank is simulated for all.\n\n"
    "Examples:\n"
    "  one layer of GPT-3 on eight GPUs, in slices:\n"
    "    stretto-bench sim --model gpt3-175b --tp 8 --dtype bf16 --schedule domino_row \\\n"
    "      --gflops 600000 --membw 3000 --gbps 3200 --latency-us 3\n"
    "  the same as JSON:                        ... --json\n"
    "  the same with a shared core:             ... --contention 0.2\n"
    "  a comparison of the published orders:    stretto-bench sim --reference\n"
    "  the same with more communication:        ... --reference --shares 0.5,0.6\n";

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
  SimOptions options{.reference = f.reference,
                     .shares = f.shares,
                     .json = f.json,
                     .model = bench::TitleOf(f.spec)};
  if (f.reference) return options;
  ASSIGN_OR_RETURN(options.spec, bench::SpecOf(f.spec));
  ASSIGN_OR_RETURN(options.cost, CostsOf(f));
  options.grid = f.grid == "layer"  ? GridWindow::kLayer
                 : f.grid == "step" ? GridWindow::kStep
                                    : GridWindow::kNone;
  options.columns = f.columns;
  options.layer = f.layer >= 0 ? f.layer : options.spec.model.layers / 2;
  if (options.layer >= options.spec.model.layers) {
    return absl::InvalidArgumentError(absl::StrCat("--layer: found ", f.layer,
                                                   ", expected a layer from 0 to ",
                                                   options.spec.model.layers - 1));
  }
  return options;
}

}  // namespace

absl::StatusOr<SimOptions> ParseSimOptions(std::vector<std::string> arguments) {
  SimFlags flags;
  CLI::App app{"Simulates a schedule of a model.", "stretto-bench sim"};
  app.footer(kSimExamples);
  AddSimFlags(app, flags);
  ASSIGN_OR_RETURN(std::string help, bench::ParseFlags(app, std::move(arguments)));
  if (!help.empty()) return SimOptions{.help = std::move(help)};
  return Assemble(flags);
}

}  // namespace stretto
