// SPDX-License-Identifier: Apache-2.0

// Fetches the steps of each run, reduces them to medians without the first, and prints the runs as
// columns of one table, or as a document.

#include "coordinator/cli/commands/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/client/follow.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/profile_text.h"
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

// "unpaced", "1 Gbit/s emulated link, 2 workers": a job on one worker meets no network.
std::string ShortLink(const v1alpha1::Job& job) {
  const v1alpha1::JobSpec& spec = job.spec();
  std::string link =
      spec.has_emulated_link()
          ? absl::StrFormat("%g Gbit/s emulated link", spec.emulated_link().gigabits_per_second())
          : "unpaced";
  std::set<absl::string_view> workers;
  for (const v1alpha1::RankPlacement& placed : job.placement()) workers.insert(placed.worker());
  if (workers.size() > 1) absl::StrAppend(&link, ", ", workers.size(), " workers");
  return link;
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

// Of all steps: the coordinator keeps the sum of an ended job, and not every step, for good.
v1alpha1::Ledger MeanLedger(v1alpha1::Ledger mean) {
  const auto count = static_cast<double>(std::max<int64_t>(1, mean.steps()));
  for (v1alpha1::Ledger::Entry& entry : *mean.mutable_entries())
    entry.set_seconds(entry.seconds() / count);
  mean.set_wall_seconds(mean.wall_seconds() / count);
  mean.set_communication_seconds(mean.communication_seconds() / count);
  mean.set_hidden_seconds(mean.hidden_seconds() / count);
  if (mean.has_preempted_seconds()) mean.set_preempted_seconds(mean.preempted_seconds() / count);
  mean.set_steps(1);
  return mean;
}

double PreemptedSeconds(const v1alpha1::Ledger& ledger) {
  return ledger.has_preempted_seconds() ? ledger.preempted_seconds() : kNone;
}

// Null: not known.
Document Number(double value) { return std::isfinite(value) ? Document(value) : Document(nullptr); }

Document LedgerDocument(const v1alpha1::Ledger& ledger) {
  Document parts = Document::object();
  for (const v1alpha1::Ledger::Entry& entry : ledger.entries())
    parts[PartName(entry)] = entry.seconds();
  return {{"parts", parts},
          {"wall_seconds", ledger.wall_seconds()},
          {"communication_seconds", ledger.communication_seconds()},
          {"hidden_seconds", ledger.hidden_seconds()},
          {"preempted_seconds", Number(PreemptedSeconds(ledger))}};
}

std::string Milliseconds(double seconds) {
  return std::isfinite(seconds) ? absl::StrFormat("%.1f ms", seconds * 1e3) : "-";
}

// "368.8 ms +4.1 %": the least, and how much greater the greatest is.
std::string IdealText(const IdealStep& ideal) {
  std::string text = Milliseconds(ideal.seconds);
  if (std::isfinite(ideal.spread)) absl::StrAppend(&text, " +", Percent(ideal.spread));
  return text;
}

}  // namespace

RunFigures FiguresOf(const v1alpha1::Job& job, const std::vector<v1alpha1::StepReport>& steps) {
  RunFigures run;
  run.name = ShortResourceName(job.name());
  run.schedule = ShortSchedule(job.spec().schedule());
  run.layout = LayoutText(job.spec());
  run.options = OptionsText(job.spec());
  run.link = ShortLink(job);
  run.steps = job.progress().steps();
  const bool stepped = HasStepFigures(job.progress());
  run.first_loss = stepped ? job.progress().first_loss() : kNone;
  run.last_loss = stepped ? job.progress().last_loss() : kNone;
  run.held_out_loss =
      job.progress().has_last_evaluation() ? job.progress().last_evaluation().loss() : kNone;
  run.submit_to_first_operation_seconds =
      job.has_submit_to_first_operation()
          ? absl::ToDoubleSeconds(ToDuration(job.submit_to_first_operation()))
          : kNone;
  run.submit_to_first_step_seconds =
      job.has_submit_to_first_step() ? absl::ToDoubleSeconds(ToDuration(job.submit_to_first_step()))
                                     : kNone;
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
  run.ledger = MeanLedger(job.progress().ledger());
  run.hidden_interval = OverlapRatio(run.ledger);
  const v1alpha1::Profile& profile = job.profile();
  const bool profiled = job.has_profile();
  run.t_comp = profiled ? profile.t_comp() : kNone;
  run.t_comm = profiled ? profile.t_comm() : kNone;
  run.t_ideal_step = profiled ? profile.t_ideal_step() : kNone;
  run.ideal = IdealsOf({job}).front();
  run.disturbance = Disturbance(profile);
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
  add("layout", [](const RunFigures& r) { return r.layout; });
  if (std::any_of(runs.begin(), runs.end(), [](const auto& r) { return !r.options.empty(); })) {
    add("options", [](const RunFigures& r) { return r.options.empty() ? "-" : r.options; });
  }
  add("link", [](const RunFigures& r) { return r.link; });
  add("steps", [](const RunFigures& r) { return absl::StrCat(r.steps); });
  if (std::any_of(runs.begin(), runs.end(),
                  [](const auto& r) { return std::isfinite(r.held_out_loss); })) {
    add("held-out loss", [](const RunFigures& r) { return Loss(r.held_out_loss); });
  }
  add("tokens/s", [](const RunFigures& r) {
    return std::isfinite(r.tokens_per_second) ? FormatCount(r.tokens_per_second) : "-";
  });
  add("step p50", [](const RunFigures& r) { return Milliseconds(r.step_seconds_p50); });
  add("t_ideal_step", [](const RunFigures& r) { return IdealText(r.ideal); });
  add("step / ideal", [](const RunFigures& r) {
    const double ratio = r.step_seconds_p50 / r.ideal.seconds;
    return std::isfinite(ratio) ? absl::StrFormat("%.3f", ratio) : "-";
  });
  if (std::any_of(runs.begin(), runs.end(), [](const auto& r) { return !r.disturbance.empty(); })) {
    add("disturbed profile",
        [](const RunFigures& r) { return r.disturbance.empty() ? "-" : r.disturbance; });
  }
  add("hidden_interval", [](const RunFigures& r) { return Percent(r.hidden_interval); });
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
  add("wall", [](const RunFigures& r) {
    return r.ledger.wall_seconds() > 0 ? Milliseconds(r.ledger.wall_seconds()) : "-";
  });
  add("preempted", [](const RunFigures& r) { return Milliseconds(PreemptedSeconds(r.ledger)); });
  return Table(headings, rows);
}

Document CompareDocument(const std::vector<RunFigures>& runs) {
  Document list = Document::array();
  for (const RunFigures& r : runs) {
    list.push_back(
        {{"name", r.name},
         {"schedule", r.schedule},
         {"layout", r.layout},
         {"options", r.options},
         {"link", r.link},
         {"steps", r.steps},
         {"first_loss", Number(r.first_loss)},
         {"last_loss", Number(r.last_loss)},
         {"held_out_loss", Number(r.held_out_loss)},
         {"submit_to_first_operation_seconds", Number(r.submit_to_first_operation_seconds)},
         {"submit_to_first_step_seconds", Number(r.submit_to_first_step_seconds)},
         {"tokens_per_second", Number(r.tokens_per_second)},
         {"step_seconds_p50", Number(r.step_seconds_p50)},
         {"t_comp", Number(r.t_comp)},
         {"t_comm", Number(r.t_comm)},
         {"t_ideal_step", Number(r.t_ideal_step)},
         {"t_ideal_step_least", Number(r.ideal.seconds)},
         {"t_ideal_step_spread", Number(r.ideal.spread)},
         {"profile_disturbed", r.disturbance},
         {"hidden_interval", Number(r.hidden_interval)},
         {"hidden_saved", Number(r.hidden_saved)},
         {"ledger", LedgerDocument(r.ledger)},
         {"verified_parity", r.verified_parity},
         {"parity", r.parity}});
  }
  return {{"runs", list}};
}

ExitCode CompareJobs(const Invocation& invocation, const std::vector<std::string>& names) {
  std::vector<RunFigures> runs;
  std::vector<v1alpha1::Job> jobs;
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
    jobs.push_back(result->job);
  }
  const std::vector<IdealStep> ideals = IdealsOf(jobs);
  for (size_t i = 0; i < runs.size(); ++i) runs[i].ideal = ideals[i];
  if (invocation.format == OutputFormat::kTable) {
    invocation.terminal.out << CompareTable(runs);
  } else {
    PrintDocument(invocation, CompareDocument(runs));
  }
  return ExitCode::kOk;
}

}  // namespace stretto::cli
