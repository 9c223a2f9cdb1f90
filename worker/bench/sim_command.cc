// SPDX-License-Identifier: Apache-2.0

// Parses the options, simulates the schedule with and without contention, and prints the grid and
// the figures as text, or the figures as JSON. With several stages, sim_report.cc prints a
// table of orders instead; with --reference, published orders are compared at several shares of
// communication.

#include "worker/bench/sim_command.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/sim_options.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/bench/reference.h"
#include "worker/bench/sim_figures.h"
#include "worker/bench/sim_plans.h"
#include "worker/bench/sim_report.h"
#include "worker/engine/exec/backend_sim/grid.h"
#include "worker/engine/exec/backend_sim/timeline.h"

namespace stretto {
namespace {

// What is left of `width` beside the names of the lanes, if no flag gives it.
int ColumnsOf(const SimOptions& options, const Program& program, int width) {
  if (options.columns > 0) return options.columns;
  size_t names = 0;
  for (const Lane& lane : program.lanes) names = std::max(names, lane.name.size());
  return std::max(kFewestColumns, width - static_cast<int>(names) - 1);
}

std::string Grids(const SimOptions& options, const SimFigures& figures, int width) {
  const Program& program = figures.program;
  const int columns = ColumnsOf(options, program, width);
  const std::vector<Interval>& intervals = figures.step.intervals;
  if (options.grid == GridWindow::kNone) return "";
  if (options.grid == GridWindow::kStep) {
    return absl::StrCat("\nthe step: ", DrawGrid(program, intervals, SpanOf(intervals), columns));
  }
  std::string text;
  for (Phase phase : {Phase::kForward, Phase::kBackward}) {
    const Interval window = LayerWindow(program, intervals, options.layer, phase);
    absl::StrAppend(&text, "\nlayer ", options.layer, " ",
                    phase == Phase::kForward ? "forward" : "backward", ": ",
                    DrawGrid(program, intervals, window, columns));
  }
  return text;
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

std::string Summary(const SimOptions& options, const SimFigures& figures) {
  const StepFigures& step = figures.step;
  const double seconds = step.ledger.seconds;
  std::string text;
  const auto time = [&](const std::string& name, double value, const std::string& note) {
    absl::StrAppendFormat(&text, "%-29s %11.3f ms", name, value * 1e3);
    absl::StrAppend(&text, note.empty() ? "" : "  ", note, "\n");
  };
  time("step", seconds, "");
  time("with open tails", figures.open_tails_seconds,
       absl::StrCat("open / closed ", RatioText(figures.open_tails_seconds, seconds)));
  time("megatron_sync, not sliced", figures.sync_seconds,
       absl::StrCat("speed-up ", RatioText(figures.sync_seconds, seconds)));
  time("t_ideal_step", figures.t_ideal_step,
       absl::StrCat("step / ideal ", RatioText(seconds, figures.t_ideal_step)));
  for (const FoundWeave& cell : figures.cells) {
    const auto plan = [&](const char* name, double seconds, const char* note) {
      time(absl::StrCat("cell, ", name, " plan"), seconds,
           absl::StrCat("/ bound ", RatioText(seconds, cell.lower_bound), note,
                        PlayedPlanName(options) == std::string(name) ? ", played" : ""));
    };
    plan(GivenPlanName(options), cell.given_seconds, cell.given_fits ? "" : ", not searched");
    plan(kFoundPlanName, cell.seconds, cell.exact ? ", shortest" : "");
    for (const FoundWeave& blocks : figures.blocks)
      plan("blocks", blocks.seconds, ", with barriers");
    time("cell, lower bound", cell.lower_bound, "of every plan, no contention");
  }
  time("t_comp", figures.t_comp, "");
  time("t_comm", figures.t_comm, "");
  if (!options.cost.table.empty())
    absl::StrAppendFormat(&text, "%-29s %s\n", "known times", KnownText(figures.known));
  absl::StrAppendFormat(&text, "\n%-29s %14s %14s\n", "communication", "forward", "backward");
  const auto pair = [&](const char* name, const std::string& forward, const std::string& backward) {
    absl::StrAppendFormat(&text, "%-29s %14s %14s\n", name, forward, backward);
  };
  const auto ms = [](double value) { return absl::StrFormat("%.3f ms", value * 1e3); };
  pair("in flight", ms(step.forward.communication), ms(step.backward.communication));
  pair("exposed share", Percent(step.forward.exposed_share()),
       Percent(step.backward.exposed_share()));
  pair("hidden ceiling, no contention", Percent(1 - figures.uncontended.forward.exposed_share()),
       Percent(1 - figures.uncontended.backward.exposed_share()));
  return text;
}

nlohmann::ordered_json PassJson(const PassFigures& pass, const PassFigures& uncontended) {
  return {{"communication_seconds", pass.communication},
          {"exposed_seconds", pass.exposed},
          {"exposed_share", pass.exposed_share()},
          {"hidden_ceiling", 1 - uncontended.exposed_share()}};
}

std::string Json(const SimOptions& options, const SimFigures& figures) {
  const EngineSpec& spec = options.spec;
  const StepFigures& step = figures.step;
  nlohmann::ordered_json json = {
      {"model", options.model},
      {"family", spec.model.architecture.name},
      {"layers", spec.model.layers},
      {"hidden", spec.model.hidden},
      {"heads", spec.model.heads},
      {"kv_heads", spec.model.key_heads()},
      {"ffn_hidden", spec.model.ffn_hidden},
      {"sequence_length", spec.model.sequence_length},
      {"vocab_size", spec.model.vocab_size},
      {"dtype", NameOf(spec.dtype)},
      {"wire_dtype", NameOf(spec.wire_dtype)},
      {"schedule", spec.schedule.name},
      {"slices", spec.schedule.slices},
      {"splits", spec.schedule.splits},
      {"sequence_parallel", spec.schedule.sequence_parallel},
      {"recompute", NameOf(spec.schedule.recompute)},
      {"defer_wgrads", spec.schedule.defer_wgrads},
      {"merge_wgrads", spec.schedule.merge_wgrads},
      {"tp_size", spec.tp_size},
      {"dp_size", spec.dp_size},
      {"micro_batch_size", spec.micro_batch_size},
      {"micro_batches", spec.micro_batches},
      {"operations", figures.program.ops.size()},
      {"step_seconds", step.ledger.seconds},
      {"megatron_sync_seconds", figures.sync_seconds},
      {"speed_up", figures.sync_seconds / step.ledger.seconds},
      {"open_tails_seconds", figures.open_tails_seconds},
      {"computations", figures.known.computations},
      {"known_computations", figures.known.known_computations},
      {"collectives", figures.known.collectives},
      {"known_collectives", figures.known.known_collectives},
      {"t_comp", figures.t_comp},
      {"t_comm", figures.t_comm},
      {"t_ideal_step", figures.t_ideal_step},
      {"overlap_ratio", step.ledger.overlap_ratio()},
      {"forward", PassJson(step.forward, figures.uncontended.forward)},
      {"backward", PassJson(step.backward, figures.uncontended.backward)},
      {"ledger", nlohmann::ordered_json::array()}};
  for (const FoundWeave& cell : figures.cells) {
    json["played_plan"] = PlayedPlanName(options);
    json["cell"] = CellJson(options, cell);
    for (const FoundWeave& blocks : figures.blocks) json["cell"]["blocks_seconds"] = blocks.seconds;
  }
  for (const LedgerEntry& entry : step.ledger.entries) {
    json["ledger"].push_back({{"part", NameOf(entry.part)},
                              {"group", entry.group},
                              {"phase", entry.phase},
                              {"seconds", entry.seconds}});
  }
  return json.dump(2);
}

// Returns the index of the results published for this share, or -1.
int PublishedFor(double share) {
  const auto* found = std::find(std::begin(kReferenceShares), std::end(kReferenceShares), share);
  return found == std::end(kReferenceShares)
             ? -1
             : static_cast<int>(found - std::begin(kReferenceShares));
}

// A table for each share.
int PrintReference(const std::vector<double>& shares, std::ostream& out, std::ostream& err) {
  for (const double share : shares) {
    const int published = PublishedFor(share);
    out << (share == shares.front() ? "" : "\n")
        << absl::StrFormat("all-reduces take %g %% of the synchronous step\n", 100 * share)
        << absl::StrFormat("%-25s %-15s%18s", "order", "schedule", "ours (exposed)")
        << absl::StrFormat("%s\n", published < 0 ? "" : "  reference (exposed)");
    for (const ReferenceRow& row : ReferenceRows()) {
      const auto result = SimulateReference(row, share);
      if (!result.ok()) return bench::ExitCodeOf(bench::NameFlags(result.status()), err);
      out << absl::StrFormat("%-25s %-15s  %6.3f (%5.1f %%)", row.label, row.schedule,
                             result->speed_up, 100 * result->exposed);
      if (published >= 0) {
        out << absl::StrFormat("  %11.2f (%3.0f %%)", row.speed_ups[published],
                               100 * row.exposed[published]);
      }
      out << "\n";
    }
  }
  return 0;
}

}  // namespace

int SimCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
               int width) {
  const absl::StatusOr<SimOptions> options = ParseSimOptions(arguments);
  if (!options.ok()) return bench::ExitCodeOf(bench::NameFlags(options.status()), err);
  if (!options->help.empty()) {
    out << options->help;
    return 0;
  }
  if (options->reference) return PrintReference(options->shares, out, err);
  if (!options->pipelines.empty()) return PrintPipelines(*options, out, err);
  const absl::StatusOr<SimFigures> figures =
      RunSim(options->spec, CostOf(*options, options->spec), options->find_plan);
  if (!figures.ok()) return bench::ExitCodeOf(bench::NameFlags(figures.status()), err);
  if (options->print_plan) {
    PrintPlayedPlans(*options, figures->cells, out, err);
    return 0;
  }
  if (options->json) {
    out << Json(*options, *figures) << "\n";
    return 0;
  }
  out << SimTitle(*options) << Grids(*options, *figures, width) << "\n"
      << PrintLedger(figures->step.ledger) << "\n"
      << Summary(*options, *figures);
  return 0;
}

}  // namespace stretto
