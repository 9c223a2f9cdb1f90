// SPDX-License-Identifier: Apache-2.0

// Prints one row for each order of a pipeline, and number of chunks, at each number of stages:
// first times and then bytes, because a line of both is longer than a terminal is wide. The first
// line of the text and a field of the JSON mark the figures as simulated, because they end up in
// documents.

#include "worker/bench/sim_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/bench/sim_pipeline.h"
#include "worker/bench/sim_plans.h"

namespace stretto {
namespace {

// Of one number of stages.
struct Rows {
  int stages = 0;
  std::vector<PipelineFigures> orders;
};

std::string Machines(const SimOptions& options) {
  const CostModel& cost = options.cost;
  const auto gbps = [](double bytes_per_second) {
    return std::isinf(bytes_per_second) ? std::string("unlimited")
                                        : absl::StrFormat("%g Gbit/s", bytes_per_second * 8e-9);
  };
  return absl::StrFormat(
      "a rank: %g Gflop/s, %g GB/s of memory; ranks of a node: %d\n"
      "between nodes %s, %g us; within one %s, %g us\n",
      cost.machine.flops_per_second * 1e-9, cost.machine.bytes_per_second * 1e-9,
      options.ranks_per_node, gbps(cost.interconnect.bytes_per_second),
      cost.interconnect.latency_seconds * 1e6, gbps(cost.interconnect.node_bytes_per_second),
      cost.interconnect.node_latency_seconds * 1e6);
}

// "interleaved_1f1b x 2"
std::string NameOf(const PipelineFigures& row) {
  return row.chunks == 1 ? row.order : absl::StrCat(row.order, " x ", row.chunks);
}

// Of all rows together; nothing without costs.
std::string KnownTimes(const SimOptions& options, const std::vector<Rows>& tables) {
  if (options.cost.table.empty()) return "";
  KnownCosts all;
  for (const Rows& rows : tables) {
    for (const PipelineFigures& row : rows.orders) all += row.known;
  }
  return absl::StrCat("known times: ", KnownText(all), "\n");
}

std::string TableOf(const std::vector<Rows>& tables) {
  size_t width = 14;
  for (const Rows& rows : tables) {
    for (const PipelineFigures& row : rows.orders) width = std::max(width, NameOf(row).size());
  }
  const int columns = static_cast<int>(width);
  std::string times =
      absl::StrFormat("%6s %-*s%11s%8s%9s%7s%6s%6s%6s\n", "stages", columns, "order", "step, ms",
                      "/ ideal", "speed-up", "bubble", "pp", "tp", "dp");
  std::string bytes = absl::StrFormat("%6s %-*s%11s%12s%12s%12s\n", "stages", columns, "order",
                                      "ideal, ms", "sent, MiB", "first, MiB", "last, MiB");
  for (const Rows& rows : tables) {
    for (const PipelineFigures& row : rows.orders) {
      const auto share = [&](double seconds) {
        return row.step > 0 ? 100 * seconds / row.step : 0;
      };
      const auto mib = [](int64_t count) { return static_cast<double>(count) / (1 << 20); };
      absl::StrAppendFormat(&times, "%6d %-*s%11.3f%8s%9s%7.1f%6.1f%6.1f%6.1f\n", rows.stages,
                            columns, NameOf(row), row.step * 1e3, RatioText(row.step, row.ideal),
                            RatioText(row.blocking_step, row.step), share(row.bubble),
                            share(row.exposed_pp), share(row.exposed_tp), share(row.exposed_dp));
      absl::StrAppendFormat(&bytes, "%6d %-*s%11.3f%12.1f%12.1f%12.1f\n", rows.stages, columns,
                            NameOf(row), row.ideal * 1e3, mib(row.sent_bytes),
                            mib(row.first_activation_bytes), mib(row.last_activation_bytes));
    }
  }
  return absl::StrCat(times, "bubble, pp, tp and dp: in % of the step\n\n", bytes);
}

// A row for each cell of folded stages; nothing without any.
std::string PlanTable(const SimOptions& options, const std::vector<Rows>& tables) {
  std::string text;
  for (const Rows& rows : tables) {
    for (const PipelineFigures& row : rows.orders) {
      for (const FoundWeave& cell : row.cells) {
        const auto time = [&](double seconds) {
          return absl::StrFormat("%9.3f ms %7s", seconds * 1e3,
                                 RatioText(seconds, cell.lower_bound));
        };
        absl::StrAppendFormat(&text, "%6d %-8s %s %s %9.3f ms  %s\n", rows.stages, CellName(cell),
                              time(cell.given_seconds), time(cell.seconds), cell.lower_bound * 1e3,
                              PlayedPlanName(options));
      }
    }
  }
  if (text.empty()) return text;
  return absl::StrFormat(
      "\nweave plans of folded, on the slowest stage\n"
      "%6s %-8s %12s %7s %12s %7s %12s  %s\n%s",
      "stages", "cell", GivenPlanName(options), "/ bound", kFoundPlanName, "/ bound", "bound",
      "played", text);
}

std::string JsonOf(const SimOptions& options, const std::vector<Rows>& tables) {
  nlohmann::ordered_json json = {{"simulated", true},
                                 {"model", options.model},
                                 {"work", bench::WorkOf(options.spec)},
                                 {"schedule", options.spec.schedule.name},
                                 {"dp_size", options.spec.dp_size},
                                 {"tp_size", options.spec.tp_size},
                                 {"ranks_per_node", options.ranks_per_node},
                                 {"pipelines", nlohmann::ordered_json::array()}};
  for (const Rows& rows : tables) {
    for (const PipelineFigures& row : rows.orders) {
      json["pipelines"].push_back({{"pp_size", rows.stages},
                                   {"order", row.order},
                                   {"chunks_per_stage", row.chunks},
                                   {"computations", row.known.computations},
                                   {"known_computations", row.known.known_computations},
                                   {"collectives", row.known.collectives},
                                   {"known_collectives", row.known.known_collectives},
                                   {"step_seconds", row.step},
                                   {"ideal_seconds", row.ideal},
                                   {"compute_seconds", row.compute},
                                   {"bubble_seconds", row.bubble},
                                   {"exposed_pp_seconds", row.exposed_pp},
                                   {"exposed_tp_seconds", row.exposed_tp},
                                   {"exposed_dp_seconds", row.exposed_dp},
                                   {"sent_bytes", row.sent_bytes},
                                   {"first_activation_bytes", row.first_activation_bytes},
                                   {"last_activation_bytes", row.last_activation_bytes},
                                   {"speed_up", row.blocking_step / row.step}});
      for (const FoundWeave& cell : row.cells) {
        nlohmann::ordered_json& pipeline = json["pipelines"].back();
        pipeline["played_plan"] = PlayedPlanName(options);
        pipeline["cells"][CellName(cell)] = CellJson(options, cell);
      }
    }
  }
  return json.dump(2);
}

}  // namespace

std::string SimTitle(const SimOptions& options) {
  const EngineSpec& spec = options.spec;
  return absl::StrCat(
      absl::StrFormat("%s, %s\n", options.model, NameOf(spec.dtype)),
      absl::StrFormat("%s: %d layers, hidden %d, %d heads, ffn %d, sequence %d\n",
                      spec.model.architecture.name, spec.model.layers, spec.model.hidden,
                      spec.model.heads, spec.model.ffn_hidden, spec.model.sequence_length),
      absl::StrFormat("%s, tp %d%s, %d x %d sequences\n", spec.schedule.name, spec.tp_size,
                      spec.dp_size > 1 ? absl::StrCat(", dp ", spec.dp_size) : "",
                      spec.micro_batches, spec.micro_batch_size),
      absl::StrFormat("slices %d, splits %d%s, recompute %s\n", spec.schedule.slices.size(),
                      spec.schedule.splits,
                      spec.schedule.sequence_parallel ? ", sequence parallel" : "",
                      NameOf(spec.schedule.recompute)));
}

int PrintPipelines(const SimOptions& options, std::ostream& out, std::ostream& err) {
  std::vector<Rows> tables;
  for (const std::vector<EngineSpec>& specs : options.pipelines) {
    auto orders =
        RunPipelines(options.plain, specs, CostOf(options, specs.front()), options.find_plan);
    if (!orders.ok()) return bench::ExitCodeOf(bench::NameFlags(orders.status()), err);
    tables.push_back({.stages = specs.front().pp_size, .orders = *std::move(orders)});
  }
  if (options.print_plan) {
    PrintPlayedPlans(options, tables.front().orders.front().cells, out, err);
    return 0;
  }
  if (options.json) {
    out << JsonOf(options, tables) << "\n";
    return 0;
  }
  out << "SIMULATED: no figure below is measured\n"
      << SimTitle(options) << Machines(options) << KnownTimes(options, tables) << "\n"
      << TableOf(tables) << PlanTable(options, tables);
  return 0;
}

}  // namespace stretto
