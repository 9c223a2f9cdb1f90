// SPDX-License-Identifier: Apache-2.0

// Everything follows from the jobs and the workers as the API has them. The slots in use are those
// of the jobs' placements: a worker that is lost or cordoned has no free slots, but may have idle
// ones.

#include "coordinator/cli/text/top_text.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text/enum_names.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/spec_text.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Job;
using v1alpha1::Ledger;
using v1alpha1::Worker;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// The slots that jobs hold, by the name of the worker.
std::map<std::string, int> UsedSlots(const ClusterView& view) {
  std::map<std::string, int> used;
  for (const Job& job : view.active) {
    for (const v1alpha1::RankPlacement& rank : job.placement()) ++used[rank.worker()];
  }
  return used;
}

struct Slots {
  int used = 0, total = 0;
};

// Of READY workers.
Slots SlotsOf(const ClusterView& view) {
  const std::map<std::string, int> used = UsedSlots(view);
  Slots slots;
  for (const Worker& worker : view.workers) {
    if (worker.state() != Worker::READY) continue;
    slots.total += worker.slots();
    const auto found = used.find(worker.name());
    if (found != used.end()) slots.used += found->second;
  }
  return slots;
}

// "1 ready, 2 lost"
template <class Objects>
std::string Counts(const Objects& objects, bool more) {
  std::map<int, std::pair<std::string, int>> counts;  // by the number of the state
  for (const auto& object : objects) {
    auto& [name, count] = counts[-static_cast<int>(object.state())];
    name = ShortName(object.state());
    ++count;
  }
  std::vector<std::string> parts;
  for (auto part = counts.rbegin(); part != counts.rend(); ++part)
    parts.push_back(absl::StrCat(part->second.second, " ", part->second.first));
  if (parts.empty()) return "none";
  return absl::StrJoin(parts, ", ") + (more ? " and more" : "");
}

std::vector<Job> JobsOf(const ClusterView& view) {
  std::vector<Job> jobs = view.active;
  jobs.insert(jobs.end(), view.waiting.begin(), view.waiting.end());
  return jobs;
}

std::string Rate(double rate) { return std::isnan(rate) ? "-" : absl::StrFormat("%.3g", rate); }

std::vector<std::string> JobRow(const Job& job) {
  const v1alpha1::Progress& progress = job.progress();
  const bool measured = HasStepFigures(progress);
  const JobSpeed speed = SpeedOf(job);
  return {ShortResourceName(job.name()),
          StateText(job.state(), false),
          absl::StrCat(progress.steps(), "/", job.spec().steps()),
          Rate(speed.steps_per_second),
          measured ? FormatCount(progress.tokens_per_second()) : "-",
          measured ? Loss(progress.last_loss()) : "-",
          Percent(speed.exposed_share),
          job.state() == Job::RUNNING && progress.has_time_left()
              ? stretto::FormatDuration(ToDuration(progress.time_left()))
              : "-",
          absl::StrCat(job.placement_size()),
          job.state() == Job::PENDING ? WhyText(job) : ""};
}

Document Known(double value) { return std::isfinite(value) ? Document(value) : Document(nullptr); }

}  // namespace

JobSpeed SpeedOf(const Job& job) {
  const v1alpha1::Progress& progress = job.progress();
  const double tokens = TokensOfStep(job.spec());
  const Ledger& ledger = progress.ledger();
  double exposed = 0;
  for (const Ledger::Entry& entry : ledger.entries())
    if (entry.part() == Ledger::EXPOSED) exposed += entry.seconds();
  return {.steps_per_second = progress.tokens_per_second() > 0 && tokens > 0
                                  ? progress.tokens_per_second() / tokens
                                  : kUnknown,
          .exposed_share = ledger.wall_seconds() > 0 ? exposed / ledger.wall_seconds() : kUnknown};
}

std::string TopText(const ClusterView& view) {
  const Slots slots = SlotsOf(view);
  std::string text =
      absl::StrCat("Workers  ", Counts(view.workers, false), "\nSlots    ", slots.used, " of ",
                   slots.total, " used\nJobs     ", Counts(JobsOf(view), view.more_waiting), "\n");
  std::vector<std::vector<std::string>> rows;
  for (const Job& job : JobsOf(view)) rows.push_back(JobRow(job));
  if (!rows.empty()) {
    absl::StrAppend(&text, "\n",
                    Table({"JOB", "STATE", ">STEP", ">STEPS/S", ">TOKENS/S", ">LOSS", ">EXPOSED",
                           ">LEFT", ">SLOTS", "WAITS FOR"},
                          rows));
  }
  const std::map<std::string, int> used = UsedSlots(view);
  rows.clear();
  for (const Worker& worker : view.workers) {
    std::vector<std::string> jobs;
    for (const std::string& job : worker.jobs()) jobs.push_back(ShortResourceName(job));
    const auto found = used.find(worker.name());
    rows.push_back({ShortResourceName(worker.name()), Worker::State_Name(worker.state()),
                    absl::StrCat(found == used.end() ? 0 : found->second),
                    absl::StrCat(worker.slots()), jobs.empty() ? "-" : absl::StrJoin(jobs, ","),
                    worker.cordon()});
  }
  if (!rows.empty()) {
    absl::StrAppend(&text, "\n",
                    Table({"WORKER", "STATE", ">USED", ">SLOTS", "JOBS", "CORDON"}, rows));
  }
  return text;
}

Document TopDocument(const ClusterView& view) {
  const Slots slots = SlotsOf(view);
  Document top = {{"slots", {{"used", slots.used}, {"total", slots.total}}},
                  {"jobs", Document::array()},
                  {"more_waiting", view.more_waiting},
                  {"workers", Document::array()}};
  for (const Job& job : JobsOf(view)) {
    const v1alpha1::Progress& progress = job.progress();
    const JobSpeed speed = SpeedOf(job);
    const bool measured = HasStepFigures(progress);
    top["jobs"].push_back(
        {{"name", ShortResourceName(job.name())},
         {"state", ShortName(job.state())},
         {"step", progress.steps()},
         {"steps", job.spec().steps()},
         {"steps_per_second", Known(speed.steps_per_second)},
         {"tokens_per_second", measured ? Known(progress.tokens_per_second()) : Document(nullptr)},
         {"loss", measured ? Known(progress.last_loss()) : Document(nullptr)},
         {"exposed_share", Known(speed.exposed_share)},
         {"slots", job.placement_size()}});
  }
  const std::map<std::string, int> used = UsedSlots(view);
  for (const Worker& worker : view.workers) {
    const auto found = used.find(worker.name());
    top["workers"].push_back({{"name", ShortResourceName(worker.name())},
                              {"state", ShortName(worker.state())},
                              {"used", found == used.end() ? 0 : found->second},
                              {"slots", worker.slots()},
                              {"cordon", worker.cordon()}});
  }
  return top;
}

}  // namespace stretto::cli
