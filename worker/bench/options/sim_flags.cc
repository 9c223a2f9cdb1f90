// SPDX-License-Identifier: Apache-2.0

// Declares the flags by group, with the check of each value. What flags mean together is checked
// where they become options (sim_options.cc).

#include "worker/bench/options/sim_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/spec/pipelines.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/sim_options.h"

namespace stretto {
namespace {

using bench::Integer;
using bench::NotEmpty;
using bench::Number;
using bench::OneOf;

void AddMachineFlags(CLI::App& app, SimFlags& f) {
  const std::string group = "Machine, of each rank";
  auto number = [&](const char* flag, auto& value, const CLI::Validator& check, const char* help) {
    app.add_option(flag, value, help)->check(check)->capture_default_str()->group(group);
  };
  const CLI::Validator rate = Number(1e-9, 1e12, "a number from 1e-9 to 1e12"),
                       share = Number(0, 0.99, "a share from 0 to 0.99");
  number("--gflops", f.gflops, rate, "rate of matrix products in Gflop/s");
  number("--membw", f.membw, rate, "memory bandwidth in GB/s");
  number("--gbps", f.gbps, rate,
         "bandwidth of a node's network interface in each direction in Gbit/s");
  const CLI::Validator latency = Number(0, 1e9, "a number from 0 to 1e9");
  number("--latency-us", f.latency_us, latency,
         "latency of a step of the ring between nodes in microseconds");
  number("--ranks-per-node", f.ranks_per_node, Integer(1, 1 << 16),
         "number of ranks that share a node and its interface");
  app.add_option("--node-gbps", f.node_gbps,
                 "bandwidth of a rank to others on its node in each direction in Gbit/s (default: "
                 "unlimited)")
      ->check(rate)
      ->group(group);
  number("--node-latency-us", f.node_latency_us, latency,
         "latency of a step of the ring within a node in microseconds");
  number("--contention", f.contention, share, "share of the compute rate lost during a collective");
  number("--link-contention", f.link_contention, share,
         "share of the link's bandwidth lost during computation");
  app.add_option("--costs", f.costs,
                 "file of measured costs, which override the model's: one of `stretto-bench "
                 "calibrate`, also in place of --gbps, --latency-us, --contention and "
                 "--link-contention; a trace of `stretto job trace`, for operations of the same "
                 "shapes; or one 'KEY SECONDS' per line")
      ->check(NotEmpty("the name of a file"))
      ->group(group);
}

void AddLayoutFlags(CLI::App& app, SimFlags& f) {
  const std::string group = "Schedule";
  app.add_option("--dp", f.spec.dp, "number of replicas, each of --micro-batches")
      ->check(Integer(1, 1024))
      ->capture_default_str()
      ->group(group);
  app.add_option("--zero", f.spec.zero, "1: replicas share the optimizer's state and its work")
      ->check(Integer(0, 1))
      ->capture_default_str()
      ->group(group);
  app.add_option("--pp", f.stages,
                 "numbers of stages; with more than one stage, orders are compared in a table")
      ->delimiter(',')
      ->check(Integer(1, 64))
      ->capture_default_str()
      ->group(group);
  bench::AddOrdersFlag(
      app, "--pipeline",
      absl::StrCat("order of a pipeline to compare: ", absl::StrJoin(PipelineNames(), ", "),
                   " (default: all but folded)"),
      PipelineNames(), f.orders);
  app.add_option("--chunks", f.chunks,
                 "numbers of chunks of a stage, each a row of the orders that take several "
                 "(default: none of these orders)")
      ->delimiter(',')
      ->check(Integer(2, 64))
      ->group(group);
}

void AddOutputFlags(CLI::App& app, SimFlags& f) {
  const std::string group = "Output";
  app.add_option("--grid", f.grid, "timeline to draw, of a model in one stage: layer, step or none")
      ->check(OneOf({"layer", "step", "none"}))
      ->capture_default_str()
      ->group(group);
  app.add_option(
         "--plan", f.plan,
         "order of the two passes of a schedule that weaves: default, found, the shortest at "
         "these costs, or a file with a weave plan as text")
      ->check(NotEmpty("default, found or the name of a file"))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--print-plan", f.print_plan,
               "print that order as a weave plan, for --plan or schedule.plan of a job, and exit")
      ->group(group);
  app.add_option("--layer", f.layer, "layer to draw (default: the middle one)")
      ->check(Integer(0, 1 << 20))
      ->group(group);
  app.add_option("--columns", f.columns,
                 "width of the timeline in characters, without the names of its lanes (default: "
                 "what fits the terminal, or 80 columns)")
      ->check(Integer(kFewestColumns, 10000))
      ->group(group);
  app.add_flag("--json", f.json, "print figures and ledger as JSON, without a timeline")
      ->group(group);
  CLI::Option* reference =
      app.add_flag("--reference", f.reference,
                   "print speed-ups of published orders in the two-stream model and exit")
          ->group(group);
  app.add_option("--shares", f.shares,
                 "shares of communication in the synchronous step, for --reference")
      ->delimiter(',')
      ->check(Number(0.01, 0.99, "a share from 0.01 to 0.99"))
      ->capture_default_str()
      ->needs(reference)
      ->group(group);
}

}  // namespace

void AddSimFlags(CLI::App& app, SimFlags& flags) {
  bench::AddSpecFlags(app, flags.spec);
  AddLayoutFlags(app, flags);
  AddMachineFlags(app, flags);
  AddOutputFlags(app, flags);
}

}  // namespace stretto
