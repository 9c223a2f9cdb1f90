// SPDX-License-Identifier: Apache-2.0

// Fetches the steps of each run, reduces them to medians and a mean ledger without the first steps,
// and prints the runs as columns of one table, or as JSON.

#include "coordinator/cli/commands/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/client/follow.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/spec_text.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "coordinator/cli/yaml/message_text.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double Median(std::vector<double> values) {
  if (values.empty()) return kNone;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// "domino_hybrid[2+2]/2": slices, splits; "helix[2]+plan": with a plan of its own.
std::string ShortSchedule(const v1alpha1::ScheduleSpec& schedule) {
  const v1alpha1::ScheduleParameters& parameters = schedule.parameters();
  std::string text = schedule.name();
  if (parameters.slice_sizes_size() > 0) {
    absl::StrAppend(&text, "[", absl::StrJoin(parameters.slice_sizes(), "+"), "]");
  } else if (parameters.slices() > 1) {
    absl::StrAppend(&text, "[", parameters.slices(), "]");
  }
  if (parameters.splits() > 1) absl::StrAppend(&text, "/", parameters.splits());
  if (!schedule.plan().empty()) text += "+plan";
  return text;
}

std::string ShortLink(const v1alpha1::JobSpec& spec) {
  if (!spec.has_emulated_link()) return "unpaced";
  return absl::StrFormat("%g Gbit/s emulated link", spec.emulated_link().gigabits_per_second());
}

// "exposed tp backward": the row of a ledger entry.
std::string PartName(const v1alpha1::Ledger::Entry& entry) {
  std::string name = v1alpha1::Ledger::Part_Name(entry.part());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const std::string& word : {entry.group(), entry.phase()}) {
    if (!word.empty()) absl::StrAppend(&name, " ", word);
  }
  return name;
}

v1alpha1::Ledger MeanLedger(const std::vector<v1alpha1::StepReport>& steps, size_t first) {
  v1alpha1::Ledger mean;
  for (size_t i = first; i < steps.size(); ++i) {
    const v1alpha1::Ledger& one = steps[i].ledger();
    for (const v1alpha1::Ledger::Entry& entry : one.entries()) {
      auto* entries = mean.mutable_entries();
      auto same = std::find_if(
          entries->begin(), entries->end(),
          [&](const v1alpha1::Ledger::Entry& other) { return PartName(other) == PartName(entry); });
      if (same == entries->end()) {
        *entries->Add() = entry;
      } else {
        same->set_seconds(same->seconds() + entry.seconds());
      }
    }
    mean.set_wall_seconds(mean.wall_seconds() + one.wall_seconds());
    mean.set_communication_seconds(mean.communication_seconds() + one.communication_seconds());
    mean.set_hidden_seconds(mean.hidden_seconds() + one.hidden_seconds());
  }
  const double count =
      static_cast<double>(std::max<size_t>(1, steps.size() - std::min(first, steps.size())));
  for (v1alpha1::Ledger::Entry& entry : *mean.mutable_entries())
    entry.set_seconds(entry.seconds() / count);
  mean.set_wall_seconds(mean.wall_seconds() / count);
  mean.set_communication_seconds(mean.communication_seconds() / count);
  mean.set_hidden_seconds(mean.hidden_seconds() / count);
  mean.set_steps(1);
  return mean;
}

// JSON has no NaN.
nlohmann::ordered_json Number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json LedgerJson(const v1alpha1::Ledger& ledger) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::object();
  for (const v1alpha1::Ledger::Entry& entry : ledger.entries())
    parts[PartName(entry)] = entry.seconds();
  return {{"parts", parts},
          {"wall_seconds", ledger.wall_seconds()},
          {"communication_seconds", ledger.communication_seconds()},
          {"hidden_seconds", ledger.hidden_seconds()}};
}

std::string Milliseconds(double seconds) {
  return std::isfinite(seconds) ? absl::StrFormat("%.1f ms", seconds * 1e3) : "-";
}

}  // namespace

RunFigures FiguresOf(const v1alpha1::Job& job, const std::vector<v1alpha1::StepReport>& steps) {
  RunFigures run;
  run.name = ShortResourceName(job.name());
  run.schedule = ShortSchedule(job.spec().schedule());
  run.options = OptionsText(job.spec());
  run.link = ShortLink(job.spec());
  run.steps = job.progress().steps();
  run.first_loss = job.progress().first_loss();
  run.last_loss = job.progress().last_loss();
  run.held_out_loss =
      job.progress().has_last_evaluation() ? job.progress().last_evaluation().loss() : kNone;
  run.submit_to_first_operation_seconds =
      absl::ToDoubleSeconds(ToDuration(job.submit_to_first_operation()));
  run.submit_to_first_step_seconds = absl::ToDoubleSeconds(ToDuration(job.submit_to_first_step()));
  const size_t first = steps.size() > 1 ? 1 : 0;
  std::vector<double> seconds;
  double tokens = 0, total = 0;
  for (size_t i = first; i < steps.size(); ++i) {
    seconds.push_back(steps[i].wall_seconds());
    tokens += static_cast<double>(steps[i].tokens());
    total += steps[i].wall_seconds();
  }
  run.tokens_per_second = total > 0 ? tokens / total : kNone;
  run.step_seconds_p50 = Median(seconds);
  run.ledger = MeanLedger(steps, first);
  run.hidden_interval = OverlapRatio(run.ledger);
  const v1alpha1::Profile& profile = job.profile();
  const bool profiled = job.has_profile();
  run.t_comp = profiled ? profile.t_comp() : kNone;
  run.t_comm = profiled ? profile.t_comm() : kNone;
  run.t_ideal_step = profiled ? profile.t_ideal_step() : kNone;
  run.hidden_saved = profiled && profile.t_comm() > 0
                         ? (profile.t_serial() - run.step_seconds_p50) / profile.t_comm()
                         : kNone;
  run.verified_parity = profile.verified_parity();
  run.parity = profiled ? profile.parity_message() : "not measured";
  return run;
}

std::string CompareTable(const std::vector<RunFigures>& runs) {
  std::vector<std::string> headings = {"PER STEP"};
  std::set<std::string> parts;
  for (const RunFigures& run : runs) {
    headings.push_back(">" + run.name);
    for (const v1alpha1::Ledger::Entry& entry : run.ledger.entries()) parts.insert(PartName(entry));
  }
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const std::string& name, auto value) {
    std::vector<std::string> row = {name};
    for (const RunFigures& run : runs) row.push_back(value(run));
    rows.push_back(std::move(row));
  };
  add("schedule", [](const RunFigures& r) { return r.schedule; });
  if (std::any_of(runs.begin(), runs.end(), [](const auto& r) { return !r.options.empty(); })) {
    add("options", [](const RunFigures& r) { return r.options.empty() ? "-" : r.options; });
  }
  add("link", [](const RunFigures& r) { return r.link; });
  add("steps", [](const RunFigures& r) { return absl::StrCat(r.steps); });
  if (std::any_of(runs.begin(), runs.end(),
                  [](const auto& r) { return std::isfinite(r.held_out_loss); })) {
    add("held-out loss", [](const RunFigures& r) { return Loss(r.held_out_loss); });
  }
  add("tokens/s", [](const RunFigures& r) { return FormatCount(r.tokens_per_second); });
  add("step p50", [](const RunFigures& r) { return Milliseconds(r.step_seconds_p50); });
  add("t_ideal_step", [](const RunFigures& r) { return Milliseconds(r.t_ideal_step); });
  add("step / ideal", [](const RunFigures& r) {
    return std::isfinite(r.t_ideal_step)
               ? absl::StrFormat("%.3f", r.step_seconds_p50 / r.t_ideal_step)
               : "-";
  });
  add("hidden_interval", [](const RunFigures& r) { return Percent(r.hidden_interval); });
  add("hidden_saved", [](const RunFigures& r) { return Percent(r.hidden_saved); });
  add("parity",
      [](const RunFigures& r) { return std::string(r.verified_parity ? "verified" : "-"); });
  for (const std::string& part : parts) {
    add(part, [&](const RunFigures& r) {
      for (const v1alpha1::Ledger::Entry& entry : r.ledger.entries()) {
        if (PartName(entry) == part) return Milliseconds(entry.seconds());
      }
      return std::string("-");
    });
  }
  add("wall", [](const RunFigures& r) { return Milliseconds(r.ledger.wall_seconds()); });
  return Table(headings, rows);
}

std::string CompareJson(const std::vector<RunFigures>& runs) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RunFigures& r : runs) {
    list.push_back({{"name", r.name},
                    {"schedule", r.schedule},
                    {"options", r.options},
                    {"link", r.link},
                    {"steps", r.steps},
                    {"first_loss", Number(r.first_loss)},
                    {"last_loss", Number(r.last_loss)},
                    {"held_out_loss", Number(r.held_out_loss)},
                    {"submit_to_first_operation_seconds", r.submit_to_first_operation_seconds},
                    {"submit_to_first_step_seconds", r.submit_to_first_step_seconds},
                    {"tokens_per_second", Number(r.tokens_per_second)},
                    {"step_seconds_p50", Number(r.step_seconds_p50)},
                    {"t_comp", Number(r.t_comp)},
                    {"t_comm", Number(r.t_comm)},
                    {"t_ideal_step", Number(r.t_ideal_step)},
                    {"hidden_interval", Number(r.hidden_interval)},
                    {"hidden_saved", Number(r.hidden_saved)},
                    {"ledger", LedgerJson(r.ledger)},
                    {"verified_parity", r.verified_parity},
                    {"parity", r.parity}});
  }
  return nlohmann::ordered_json{{"runs", list}}.dump(2) + "\n";
}

ExitCode CompareJobs(const Invocation& invocation, const std::vector<std::string>& names) {
  std::vector<RunFigures> runs;
  for (const std::string& name : names) {
    std::vector<v1alpha1::StepReport> steps;
    const absl::StatusOr<FollowResult> result = FollowJob(
        invocation, ResourceName("jobs", name),
        {.on_job = [](const v1alpha1::Job&) {},
         .on_step = [&](const v1alpha1::StepReport& step) { steps.push_back(step); },
         .on_notice =
             [&](const std::string& notice) { invocation.terminal.err << notice << "\n"; }});
    if (!result.ok()) return ReportError(invocation, result.status());
    if (result->detached) return ExitCode::kDetached;
    runs.push_back(FiguresOf(result->job, steps));
  }
  invocation.terminal.out << (invocation.format == OutputFormat::kTable ? CompareTable(runs)
                                                                        : CompareJson(runs));
  return ExitCode::kOk;
}

}  // namespace stretto::cli
