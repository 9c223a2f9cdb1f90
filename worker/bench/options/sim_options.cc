// SPDX-License-Identifier: Apache-2.0

// Makes the specs and costs of a simulation from its flags: one spec, or with several stages one
// for each number of stages, order and number of chunks. Costs have no topology until CostOf adds
// that of a job, because it depends on the ranks.

#include "worker/bench/options/sim_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/spec/pipelines.h"
#include "proto/spec/schedules.h"
#include "worker/bench/options/costs_flag.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/sim_flags.h"
#include "worker/bench/options/trace_costs.h"

namespace stretto {
namespace {

constexpr char kSimExamples[] =
    "Times come from a cost model: a computation takes flops / rate + bytes / bandwidth, and a\n"
    "collective takes the time of a ring. One rank of each stage is simulated for all. Ranks of a\n"
    "node are adjacent and share its network interface; a rank has links of its own to the others\n"
    "on its node.\n\n"
    "With several stages, one row compares an order of a pipeline with its ideal, the same order\n"
    "on a network that takes no time, and with 1f1b_blocking. Shares are means over ranks and add\n"
    "up, with computation, to the step: a stage waits for others in the ideal step (bubble), and\n"
    "longer in this one (pp); it waits for its own shards (tp) and replicas (dp). 'sent' is what\n"
    "the busiest rank sends to other stages. interleaved_1f1b has a row for each of --chunks, and\n"
    "folded has one where it is asked for, with helix in place of --schedule. Its weave plans are\n"
    "in a table of their own, with the time that a cell takes on the slowest stage.\n\n"
    "Examples:\n"
    "  one layer of GPT-3 on eight GPUs, in slices:\n"
    "    stretto-bench sim --model gpt3-175b --tp 8 --dtype bf16 --schedule domino_row \\\n"
    "      --gflops 600000 --membw 3000 --gbps 3200 --latency-us 3\n"
    "  the same as JSON:                        ... --json\n"
    "  the same with a shared core:             ... --contention 0.2\n"
    "  a comparison of the published orders:    stretto-bench sim --reference\n"
    "  the same with more communication:        ... --reference --shares 0.5,0.6\n"
    "  the plan of two woven passes, for schedule.plan of a job or for --plan:\n"
    "    stretto-bench sim --schedule helix --micro-batches 8 --plan found --print-plan\n"
    "  the same for the two cells of folded stages:  ... --layers 8 --pp 2 --pipeline folded\n"
    "  pipelines on nodes of eight GPUs:        stretto-bench sim --model gpt3-175b --tp 8 \\\n"
    "      --pp 2,4,8 --micro-batches 32 --dtype bf16 --gflops 600000 --membw 3000 --gbps 400 \\\n"
    "      --ranks-per-node 8 --node-gbps 3600\n";

// Beyond it, the copies of simulated ranks take gigabytes.
constexpr int kMaxRanks = 4096;

// Takes the link, the contention and the times of a calibration in place of those of the flags.
absl::StatusOr<CostModel> CalibratedCosts(const CostModel& cost, const std::string& file) {
  ASSIGN_OR_RETURN(const std::optional<CostProfile> profile, bench::ReadCosts(file));
  CostModel measured = ModelOf(*profile);
  measured.machine = cost.machine;
  measured.interconnect.node_bytes_per_second = cost.interconnect.node_bytes_per_second;
  measured.interconnect.node_latency_seconds = cost.interconnect.node_latency_seconds;
  return measured;
}

absl::StatusOr<std::string> TextOf(absl::string_view flag, const std::string& file) {
  absl::StatusOr<std::string> text = ReadFile(file);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", text.status().message()));
}

absl::StatusOr<CostModel> CostsOf(const SimFlags& f) {
  CostModel cost;
  cost.machine = {.flops_per_second = f.gflops * 1e9, .bytes_per_second = f.membw * 1e9};
  cost.interconnect = {.bytes_per_second = f.gbps * 1e9 / 8,
                       .latency_seconds = f.latency_us * 1e-6,
                       .node_latency_seconds = f.node_latency_us * 1e-6};
  if (f.node_gbps > 0) cost.interconnect.node_bytes_per_second = f.node_gbps * 1e9 / 8;
  cost.contention = {.compute = f.contention, .communication = f.link_contention};
  if (!f.costs.empty()) {
    ASSIGN_OR_RETURN(const std::string text, TextOf("--costs", f.costs));
    if (absl::StartsWith(text, kCostsTitle)) return CalibratedCosts(cost, f.costs);
    absl::StatusOr<CostTable> table = absl::StartsWith(text, bench::kTraceTitle)
                                          ? bench::CostsOfTrace(text)
                                          : CostTable::Parse(text);
    if (!table.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--costs ", f.costs, ": ", table.status().message()));
    }
    if (table->empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--costs ", f.costs, ": found no line with costs, expected at least one"));
    }
    cost.table = *std::move(table);
  }
  return cost;
}

absl::Status CheckPipelineFlags(const SimFlags& f) {
  const auto error = [](const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat(words...));
  };
  const bool staged = f.stages != std::vector<int>{1};
  if (!staged && !f.orders.empty()) {
    return error("--pipeline: found ", f.orders.front(),
                 " with --pp 1, expected --pp of at least 2");
  }
  if (!staged && !f.chunks.empty())
    return error("--chunks: found ", f.chunks.front(), " with --pp 1, expected --pp of at least 2");
  const bool folded =
      !f.orders.empty() && std::all_of(f.orders.begin(), f.orders.end(), bench::IsFolded);
  if (staged && !folded) RETURN_IF_ERROR(bench::ExpectUnwoven(f.spec));
  if (staged && f.print_plan && f.stages.size() > 1) {
    return error("--print-plan: found it with ", f.stages.size(),
                 " numbers of stages in --pp, expected one");
  }
  RETURN_IF_ERROR(bench::ExpectChunks("--pipeline", f.orders, f.chunks));
  return bench::ExpectEachOnce("--pipeline", f.orders);
}

// The orders that any other schedule may have.
std::vector<std::string> PlainOrders() {
  std::vector<std::string> names = PipelineNames();
  std::erase_if(names, bench::IsFolded);
  return names;
}

// Returns the specs of every order at a number of stages.
absl::StatusOr<std::vector<EngineSpec>> SpecsOf(const SimFlags& f, const bench::SpecFlags& given) {
  std::vector<EngineSpec> specs;
  for (const std::string& order : f.orders.empty() ? PlainOrders() : f.orders) {
    for (const bench::SpecFlags& row : bench::RowsOf(given, order, f.chunks)) {
      ASSIGN_OR_RETURN(specs.emplace_back(), bench::SpecOf(row));
    }
  }
  return specs;
}

absl::Status AddPipelines(const SimFlags& f, SimOptions* options) {
  RETURN_IF_ERROR(CheckPipelineFlags(f));
  const bool staged = f.stages != std::vector<int>{1};
  for (int stages : f.stages) {
    bench::SpecFlags flags = f.spec;
    flags.pp = stages;
    if (staged && stages == 1) {
      return absl::InvalidArgumentError(
          "--pp: found 1 among several, expected 1 alone or numbers of at least 2");
    }
    bench::SpecFlags plain = flags;
    if (staged) bench::Unweave(&plain);
    ASSIGN_OR_RETURN(options->plain, bench::SpecOf(plain));
    options->spec = options->plain;
    const int ranks = options->spec.world_size();
    if ((staged || f.ranks_per_node > 1) && ranks > kMaxRanks) {
      return absl::InvalidArgumentError(absl::StrCat("--pp x --dp x --tp: found ", ranks,
                                                     " ranks, expected at most ", kMaxRanks,
                                                     " with several stages or ranks of a node"));
    }
    if (!staged) continue;
    ASSIGN_OR_RETURN(options->pipelines.emplace_back(), SpecsOf(f, flags));
    if (FindSchedule(flags.schedule)->weaves) options->spec = options->pipelines.back().front();
  }
  return absl::OkStatus();
}

// Reads the file of --plan, if that is one, and decides which plan to simulate and to print.
absl::Status AddPlan(SimFlags* f, SimOptions* options) {
  options->find_plan = f->plan == kFoundPlan;
  options->print_plan = f->print_plan;
  const bool weaves = FindSchedule(f->spec.schedule)->weaves;
  if ((options->find_plan || f->print_plan) && !weaves) {
    return absl::InvalidArgumentError(
        absl::StrCat(f->print_plan ? "--print-plan: found it" : "--plan: found 'found'",
                     " with --schedule ", f->spec.schedule, ", expected a schedule that weaves"));
  }
  if (f->print_plan && f->json) {
    return absl::InvalidArgumentError(
        "--print-plan: found it with --json, expected one of the two: a plan is text of its own");
  }
  if (options->find_plan || f->plan == kDefaultPlan) return absl::OkStatus();
  ASSIGN_OR_RETURN(f->spec.plan, TextOf("--plan", f->plan));
  return absl::OkStatus();
}

absl::StatusOr<SimOptions> Assemble(SimFlags f) {
  SimOptions options{.reference = f.reference,
                     .shares = f.shares,
                     .json = f.json,
                     .model = bench::TitleOf(f.spec)};
  if (f.reference) return options;
  RETURN_IF_ERROR(AddPlan(&f, &options));
  RETURN_IF_ERROR(AddPipelines(f, &options));
  options.ranks_per_node = f.ranks_per_node;
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

CostModel CostOf(const SimOptions& options, const EngineSpec& spec) {
  CostModel cost = options.cost;
  if (options.ranks_per_node == 1) return cost;
  for (int rank = 0; rank < spec.world_size(); ++rank)
    cost.interconnect.topology.node.push_back(rank / options.ranks_per_node);
  return cost;
}

absl::StatusOr<SimOptions> ParseSimOptions(std::vector<std::string> arguments) {
  SimFlags flags;
  CLI::App app{"Simulates a schedule of a model.", "stretto-bench sim"};
  app.footer(kSimExamples);
  AddSimFlags(app, flags);
  ASSIGN_OR_RETURN(std::string help, bench::ParseFlags(app, std::move(arguments)));
  if (!help.empty()) return SimOptions{.help = std::move(help)};
  return Assemble(std::move(flags));
}

}  // namespace stretto
