// SPDX-License-Identifier: Apache-2.0

// Everything but the look at the memory is pure.

#include "coordinator/cli/commands/dry_run.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/commands/memory_look.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/spec_text.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "proto/base/printable.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Job;
using v1alpha1::Plan;
using v1alpha1::Worker;

// By the spec alone; how many an epoch has is in the data, at which a worker looks.
std::string StepsText(const v1alpha1::JobSpec& spec) {
  const double tokens = TokensOfStep(spec);
  if (tokens <= 0) return "";
  // With `epochs`, a worker derives the number of steps.
  const std::string steps = spec.steps() > 0 ? absl::StrCat(spec.steps(), " of ") : "";
  return absl::StrCat("\nSteps: ", steps, FormatCount(tokens), " tokens each\n");
}

std::string PlacementText(const Job& job, const std::vector<Worker>& workers) {
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.type() != "Scheduled" || condition.status() == v1alpha1::Condition::TRUE)
      continue;
    return absl::StrCat("It would wait: ", Printable(condition.reason()), ": ",
                        Printable(condition.message()), "\n");
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& rank : job.placement()) {
    const auto* device = FindDevice(workers, rank.worker(), rank.slot());
    rows.push_back({absl::StrCat(rank.rank()), ShortResourceName(rank.worker()),
                    absl::StrCat(rank.slot()),
                    device == nullptr ? "-" : Printable(device->description())});
  }
  return Table({">RANK", "WORKER", ">SLOT", "DEVICE"}, rows);
}

// What a worker has found, or why none has looked.
std::string InspectionText(const Job& job) {
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.type() != "Inspected") continue;
    return absl::StrCat(condition.status() == v1alpha1::Condition::TRUE
                            ? "\nFound by "
                            : "\nData, weights and checkpoints were not looked at: ",
                        Printable(condition.message()), "\n");
  }
  return "";
}

// "0", "1-7"
std::string RanksText(const Plan::Rank& planned) {
  if (planned.count() <= 1) return absl::StrCat(planned.rank());
  return absl::StrCat(planned.rank(), "-", planned.rank() + planned.count() - 1);
}

// Has a row for each class of ranks.
std::string MemoryTable(const Plan& plan) {
  std::vector<std::string> arenas;  // of any rank
  for (const Plan::Rank& planned : plan.ranks()) {
    for (const Plan::Arena& arena : planned.arenas()) {
      if (std::find(arenas.begin(), arenas.end(), arena.name()) == arenas.end())
        arenas.push_back(arena.name());
    }
  }
  const bool staged = plan.ranks_size() > 0 && plan.ranks().rbegin()->stage() > 0;
  std::vector<std::string> headings = {"RANKS"};
  if (staged) headings.emplace_back(">STAGE");
  for (const std::string& arena : arenas)
    headings.push_back(absl::StrCat(">", absl::AsciiStrToUpper(arena)));
  headings.insert(headings.end(), {">TOTAL", ">PARAMETERS", ">OPERATIONS"});
  std::vector<std::vector<std::string>> rows;
  for (const Plan::Rank& planned : plan.ranks()) {
    std::vector<std::string>& row = rows.emplace_back(1, RanksText(planned));
    if (staged) row.push_back(absl::StrCat(planned.stage()));
    for (const std::string& name : arenas) {
      const auto found =
          std::find_if(planned.arenas().begin(), planned.arenas().end(),
                       [&](const Plan::Arena& arena) { return arena.name() == name; });
      row.push_back(found == planned.arenas().end() ? "-" : FormatBytes(found->bytes()));
    }
    row.insert(row.end(), {FormatBytes(planned.bytes()), FormatCount(planned.parameters()),
                           FormatCount(planned.operations())});
  }
  return rows.empty() ? "" : Table(headings, rows);
}

// Tells what the copies for asynchronous checkpoints take on top; empty if the job makes none.
std::string CopyText(const v1alpha1::DryRun& run) {
  int64_t bytes = 0;
  for (const Plan::Rank& planned : run.plan().ranks())
    bytes = std::max(bytes, planned.checkpoint_copy_bytes());
  if (bytes == 0) return "";
  return absl::StrCat(
      "Copy for asynchronous checkpoints: ", FormatBytes(bytes),
      " of each rank in the memory of its node",
      run.job().spec().checkpoint().asynchronous() ? "" : ", if it is at most half of what is left",
      "\n");
}

std::string PlanText(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  const Plan& plan = run.plan();
  std::string out = absl::StrCat(
      "Model: ", FormatCount(plan.parameters()), " parameters, ",
      FormatCount(plan.flops_per_token()), " floating point operations per token\n\n",
      "Memory of a rank, allocated before step 1 (libraries take some more):\n", MemoryTable(plan));
  absl::StrAppend(&out, CopyText(run));
  if (plan.smallest()) {
    const bool warm_ups = run.job().spec().schedule().pipeline().auto_warm_up();
    absl::StrAppend(&out,
                    warm_ups ? "auto_warm_up chooses warm-ups when the ranks prepare"
                             : "auto_merge_wgrads then takes what is free",
                    ": this is the least it can be.\n");
  }
  for (const Room& room : RoomsOf(run, workers)) {
    if (room.offered == 0) continue;
    absl::StrAppend(&out, room.place, ": ", FormatBytes(room.asked), " of ",
                    FormatBytes(room.offered), room.fits() ? "" : ", does NOT fit", "\n");
  }
  return out;
}

}  // namespace

std::string DryRunText(const v1alpha1::DryRun& run, const std::vector<Worker>& workers) {
  std::string out =
      absl::StrCat("Spec:\n", ToYaml(run.job().spec()), StepsText(run.job().spec()),
                   "\nPlacement:\n", PlacementText(run.job(), workers), InspectionText(run.job()));
  if (run.has_plan()) absl::StrAppend(&out, "\n", PlanText(run, workers));
  return out;
}

ExitCode DryRun(const Invocation& invocation, const Job& job, const std::string& planner) {
  v1alpha1::DryRun run;
  *run.mutable_job() = job;
  const absl::StatusOr<std::vector<Worker>> workers = LookAtMemory(invocation, planner, &run);
  if (!workers.ok()) return ReportError(invocation, workers.status());
  if (invocation.format == OutputFormat::kTable) {
    invocation.terminal.out << DryRunText(run, *workers);
  } else {
    PrintMessage(invocation, run);
  }
  ReportNotCompared(invocation, run);
  invocation.terminal.err << "job " << ShortResourceName(job.name()) << " is valid"
                          << (run.has_fits() && !run.fits() ? ", but does not fit memory" : "")
                          << "; nothing was stored\n";
  return run.has_fits() && !run.fits() ? kError : kOk;
}

}  // namespace stretto::cli
