// SPDX-License-Identifier: Apache-2.0

// One function per view of a job: a row of a list, a full description, the summary at its end, and
// the reason of its failure.

#include "coordinator/cli/text/job_text.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text/enum_names.h"
#include "coordinator/cli/text/field_lines.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/job_events.h"
#include "coordinator/cli/text/ledger_table.h"
#include "coordinator/cli/text/profile_text.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/spec_text.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "proto/base/exit_reason.h"
#include "proto/base/ids.h"
#include "proto/base/printable.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Job;

std::string ConditionTable(const Job& job, absl::Time now) {
  std::vector<std::vector<std::string>> rows;
  for (const v1alpha1::Condition& condition : job.conditions()) {
    rows.push_back(
        {condition.type(), v1alpha1::Condition::Status_Name(condition.status()), condition.reason(),
         Age(condition.last_transition_time(), now),
         SaysFirstFailure(job, condition.message()) ? "the first failure" : condition.message()});
  }
  return Table({"CONDITION", "STATUS", "REASON", ">SINCE", "MESSAGE"}, rows);
}

std::string PlacementTable(const Job& job) {
  const auto& ledgers = job.progress().rank_ledgers();
  std::vector<std::vector<std::string>> rows;
  for (const v1alpha1::RankPlacement& placed : job.placement()) {
    std::vector<std::string> row = {absl::StrCat(placed.rank()), ShortResourceName(placed.worker()),
                                    absl::StrCat(placed.slot())};
    if (placed.rank() < ledgers.size())
      row.push_back(Percent(OverlapRatio(ledgers[placed.rank()])));
    rows.push_back(row);
  }
  return Table({">RANK", "WORKER", ">SLOT", ">OVERLAP"}, rows);
}

std::string AttemptText(const Job& job) {
  std::string text = absl::StrCat(job.attempt(), ", epoch ", job.epoch());
  if (job.spec().has_restart()) {
    absl::StrAppend(&text, ", ", job.restarts(), " of at most ", job.spec().restart().max(),
                    " restarts used");
  }
  if (job.has_next_attempt_time()) {
    absl::StrAppend(&text, ", the next one after ", TimeText(job.next_attempt_time()));
  }
  return text;
}

// The last attempt usually ended with it, and a view that has it above does not repeat it.
bool IsFirstFailure(const Job& job, const v1alpha1::FirstFailure& failure) {
  const v1alpha1::FirstFailure& first = job.first_failure();
  return job.has_first_failure() && failure.rank() == first.rank() &&
         failure.step() == first.step() && failure.message() == first.message();
}

// Shown once there is more than one.
std::string AttemptTable(const Job& job) {
  if (job.attempts_size() < 2) return "";
  std::vector<std::vector<std::string>> rows;
  for (const v1alpha1::Attempt& attempt : job.attempts()) {
    const v1alpha1::FirstFailure& failure = attempt.first_failure();
    const std::string why = !attempt.has_first_failure()   ? "-"
                            : IsFirstFailure(job, failure) ? "the first failure"
                                                           : FirstLine(FailureText(failure));
    rows.push_back({absl::StrCat(attempt.number()), absl::StrCat(attempt.epoch()),
                    TimeText(attempt.start_time()),
                    attempt.has_end_time() ? TimeText(attempt.end_time()) : "-",
                    absl::StrCat(attempt.steps()),
                    attempt.cause() == 0 ? "-" : ShortName(attempt.cause()), why});
  }
  return Table({">ATTEMPT", ">EPOCH", "STARTED", "ENDED", ">STEPS", "CAUSE", "FIRST FAILURE"},
               rows);
}

// Whether the job says anything about its place in the queue.
bool IsQueuedSpecially(const Job& job) {
  const v1alpha1::QueueSpec& queue = job.spec().queue();
  return queue.priority() != 0 || (!queue.project().empty() && queue.project() != "default");
}

// Whether the job is of one of several users. Without TLS there is one, and an earlier release knew
// none.
bool IsOfSomebody(const Job& job) { return !job.owner().empty() && job.owner() != kLocalUser; }

std::string SignalOf(const v1alpha1::FirstFailure& failure) {
  return absl::StrCat("signal ", failure.signal());
}

// "rank 1 on worker-2 was killed by signal 9 (Killed) at step 12, backward"
std::string FailureHead(const v1alpha1::FirstFailure& failure, bool with_exit) {
  std::string out = absl::StrCat("rank ", failure.rank());
  if (!failure.worker().empty()) absl::StrAppend(&out, " on ", ShortResourceName(failure.worker()));
  if (with_exit && failure.signal() != 0) {
    const char* name = strsignal(failure.signal());
    absl::StrAppend(&out, " was killed by ", SignalOf(failure), " (",
                    name == nullptr ? "unknown" : name, ")");
  } else if (with_exit) {
    absl::StrAppend(&out, " exited with status ", failure.exit_code());
  }
  if (failure.step() > 0) absl::StrAppend(&out, " at step ", failure.step());
  if (!failure.phase().empty()) absl::StrAppend(&out, ", ", Escaped(failure.phase()));
  return out;
}

std::string LossText(const v1alpha1::Progress& progress) {
  return absl::StrCat(Loss(progress.first_loss()), " -> ", Loss(progress.last_loss()));
}

std::string StepText(const v1alpha1::Progress& progress) {
  return absl::StrCat(progress.steps(), "/", progress.total_steps());
}

void AddHeldOut(const v1alpha1::Progress& progress, FieldLines* fields) {
  if (!progress.has_last_evaluation()) return;
  const v1alpha1::Evaluation& last = progress.last_evaluation();
  fields->Add("Held out", absl::StrFormat("loss %s, perplexity %s, best loss %s, after step %d",
                                          Loss(last.loss()), Perplexity(last.perplexity()),
                                          Loss(last.best_loss()), progress.last_evaluation_step()));
}

// Explains why a job succeeded before its last step; empty if it did not.
std::string EarlyStopText(const Job& job) {
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.type() == "Succeeded" &&
        ExitReasonOf(condition.reason()) == ExitReason::kEarlyStopped) {
      return absl::StrCat("stopped early: ", Escaped(condition.message()), "\n");
    }
  }
  return "";
}

// "1.25 done, one has 62 steps"; empty if the ranks have not counted it.
std::string EpochsText(const Job& job) {
  const int64_t sequences = job.epoch_sequences(), batch = job.spec().global_batch_size();
  if (sequences <= 0 || batch <= 0) return "";
  return absl::StrFormat("%.2f done, one has %d steps",
                         static_cast<double>(job.progress().steps()) * static_cast<double>(batch) /
                             static_cast<double>(sequences),
                         sequences / batch + (sequences % batch == 0 ? 0 : 1));
}

void AddProgress(const Job& job, FieldLines* fields) {
  const v1alpha1::Progress& progress = job.progress();
  std::string steps = StepText(progress);
  if (const double tokens = TokensOfStep(job.spec()); tokens > 0)
    absl::StrAppend(&steps, " of ", FormatCount(tokens), " tokens each");
  if (job.state() == Job::RUNNING && progress.has_time_left()) {
    absl::StrAppend(&steps, ", ", stretto::FormatDuration(ToDuration(progress.time_left())),
                    " left");
  }
  fields->Add("Steps", steps);
  if (const std::string epochs = EpochsText(job); !epochs.empty()) fields->Add("Epochs", epochs);
  if (HasStepFigures(progress)) {
    fields->Add("Loss", LossText(progress));
    AddHeldOut(progress, fields);
    fields->Add("Tokens", absl::StrCat(FormatCount(static_cast<double>(progress.tokens())), ", ",
                                       FormatCount(progress.tokens_per_second()), "/s"));
  }
  if (progress.skipped_updates() > 0) {
    fields->Add("Skipped",
                absl::StrCat(progress.skipped_updates(), " updates: gradient norm not finite"));
  }
  if (!progress.last_checkpoint().empty()) fields->Add("Checkpoint", progress.last_checkpoint());
  if (!progress.best_checkpoint().empty())
    fields->Add("Best", absl::StrCat("checkpoint ", progress.best_checkpoint()));
  if (job.has_submit_to_first_step()) {
    fields->Add("First step",
                absl::StrCat("operation after ",
                             stretto::FormatDuration(ToDuration(job.submit_to_first_operation())),
                             ", step after ",
                             stretto::FormatDuration(ToDuration(job.submit_to_first_step()))));
  }
}

}  // namespace

std::string StateText(Job::State state, bool color) {
  const std::string name = Job::State_Name(state);
  const std::string text = name.empty() ? absl::StrCat("STATE_", static_cast<int>(state)) : name;
  if (!color) return text;
  const char* code = state == Job::SUCCEEDED ? "32" : state == Job::FAILED ? "31" : "33";
  return absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
}

bool HasEnded(Job::State state) {
  return state == Job::SUCCEEDED || state == Job::FAILED || state == Job::CANCELLED;
}

std::vector<std::string> JobStates() { return AcceptedNames(*Job::State_descriptor()); }

std::string JobTable(const std::vector<Job>& jobs, absl::Time now) {
  std::vector<std::vector<std::string>> rows;
  const bool queued = std::any_of(jobs.begin(), jobs.end(), IsQueuedSpecially);
  const bool owned = std::any_of(jobs.begin(), jobs.end(), IsOfSomebody);
  for (const Job& job : jobs) {
    const v1alpha1::Progress& progress = job.progress();
    const bool started = progress.steps() > 0, measured = HasStepFigures(progress);
    std::vector<std::string>& row = rows.emplace_back();
    row = {ShortResourceName(job.name()), StateText(job.state(), false)};
    if (owned) row.push_back(job.owner().empty() ? "-" : job.owner());
    if (queued) {
      row.push_back(absl::StrCat(job.spec().queue().priority()));
      row.push_back(job.spec().queue().project());
    }
    for (std::string& figure : std::vector<std::string>{
             started ? StepText(progress) : "-", measured ? Loss(progress.last_loss()) : "-",
             measured ? FormatCount(progress.tokens_per_second()) : "-",
             started ? Percent(OverlapRatio(progress.ledger())) : "-", job.spec().schedule().name(),
             Age(job.create_time(), now)}) {
      row.push_back(std::move(figure));
    }
  }
  std::vector<std::string> header = {"NAME", "STATE"};
  if (owned) header.emplace_back("OWNER");
  if (queued) header.insert(header.end(), {">PRIORITY", "PROJECT"});
  header.insert(header.end(), {">STEP", ">LOSS", ">TOKENS/S", ">OVERLAP", "SCHEDULE", ">AGE"});
  return Table(header, rows);
}

std::string DescribeJob(const Job& job, absl::Time now, bool color) {
  FieldLines fields;
  fields.Add("Name", ShortResourceName(job.name()));
  fields.Add("Uid", job.uid());
  if (IsOfSomebody(job)) fields.Add("Owner", job.owner());
  fields.AddRaw("State", StateText(job.state(), color));
  fields.Add("Created", TimeText(job.create_time()));
  if (job.has_start_time()) fields.Add("Started", TimeText(job.start_time()));
  if (job.has_end_time()) fields.Add("Ended", TimeText(job.end_time()));
  if (job.has_retire_time()) {
    fields.Add("Retired", absl::StrCat(TimeText(job.retire_time()),
                                       ": its spec, steps, ledgers and events are not kept"));
  }
  if (!job.spec().labels().empty()) fields.Add("Labels", LabelsText(job.spec()));
  if (IsQueuedSpecially(job)) {
    fields.Add("Queue", absl::StrCat("priority ", job.spec().queue().priority(), ", project ",
                                     job.spec().queue().project()));
  }
  fields.Add("Attempt", AttemptText(job));
  if (!job.has_retire_time()) {
    fields.Add("Model", ModelText(job.spec()));
    fields.Add("Data", DataText(job.spec()));
    fields.Add("Schedule", ScheduleText(job.spec()));
  }
  if (job.merged_wgrads() > 0) {
    fields.Add("Merged", absl::StrCat("weight gradients of ", job.merged_wgrads(),
                                      job.merged_wgrads() == 1 ? " micro-batch" : " micro-batches",
                                      ", as memory allowed"));
  }
  if (job.warm_ups_size() > 0) {
    fields.Add("Warm-ups", absl::StrCat(absl::StrJoin(job.warm_ups(), " "),
                                        ", by measured times and as memory allowed"));
  }
  fields.Add("Device", ShortName(job.spec().device()));
  if (!job.has_retire_time()) fields.Add("Link", LinkText(job.spec()));
  AddProgress(job, &fields);
  std::string out = fields.text();
  if (job.has_first_failure()) {
    absl::StrAppend(&out, "\nFirst failure: ", FailureText(job.first_failure()), "\n");
  }
  if (job.conditions_size() > 0) absl::StrAppend(&out, "\n", ConditionTable(job, now));
  const std::string attempts = AttemptTable(job);
  if (!attempts.empty()) absl::StrAppend(&out, "\n", attempts);
  const std::vector<JobEvent> events = EventsOf(job, FailureShown::kAbove);
  if (!events.empty()) absl::StrAppend(&out, "\n", EventTable(events));
  if (job.placement_size() > 0) absl::StrAppend(&out, "\n", PlacementTable(job));
  if (job.progress().ledger().entries_size() > 0) {
    absl::StrAppend(&out, "\nLedger of rank 0\n",
                    LedgerTable(job.progress().ledger(), job.spec().has_emulated_link()));
    const std::string stages = StageTable(job);
    if (!stages.empty()) absl::StrAppend(&out, "\nLedger of the stages\n", stages);
  }
  if (job.has_profile()) absl::StrAppend(&out, "\n", ProfileTable(job));
  if (job.samples_size() > 0) {
    absl::StrAppend(&out, "\n", absl::StrJoin(SampleLines(*job.samples().rbegin()), "\n"), "\n");
  }
  return out;
}

std::string Summary(const Job& job, bool color) {
  const v1alpha1::Progress& progress = job.progress();
  std::string out =
      absl::StrCat("job ", ShortResourceName(job.name()), " ", StateText(job.state(), color),
                   " after ", progress.steps(), " of ", progress.total_steps(), " steps");
  if (job.has_end_time() && job.has_create_time()) {
    absl::StrAppend(&out, " in ",
                    stretto::FormatDuration(ToTime(job.end_time()) - ToTime(job.create_time())));
  }
  if (job.has_submit_to_first_step()) {
    absl::StrAppend(&out, " (first step after ",
                    stretto::FormatDuration(ToDuration(job.submit_to_first_step())), ")");
  }
  out += "\n";
  if (job.has_first_failure()) absl::StrAppend(&out, FailureText(job.first_failure()), "\n");
  if (!job.has_first_failure() && job.state() != Job::SUCCEEDED) {
    const std::string why = WhyText(job);
    if (!why.empty()) absl::StrAppend(&out, why, "\n");
  }
  out += EarlyStopText(job);
  if (HasStepFigures(progress)) {
    absl::StrAppend(&out, "loss ", LossText(progress), ", ",
                    FormatCount(static_cast<double>(progress.tokens())), " tokens, ",
                    FormatCount(progress.tokens_per_second()), " tokens/s\n");
  }
  if (progress.has_last_evaluation()) {
    absl::StrAppend(&out, HeldOutText(progress.last_evaluation()), "\n");
  }
  if (progress.ledger().entries_size() > 0) {
    absl::StrAppend(&out, "\n", LedgerTable(progress.ledger(), job.spec().has_emulated_link()));
  }
  return out;
}

std::vector<std::string> SampleLines(const v1alpha1::Samples& samples) {
  const std::string step = absl::StrCat("sample of step ", samples.step(), ": ");
  if (!samples.error().empty()) return {absl::StrCat(step, "none, ", Escaped(samples.error()))};
  std::vector<std::string> lines;
  for (const v1alpha1::Sample& sample : samples.samples()) {
    lines.push_back(
        absl::StrCat(step, "[", Escaped(sample.prompt()), "] ", Escaped(sample.text())));
  }
  return lines;
}

std::string FailureText(const v1alpha1::FirstFailure& failure) {
  std::string out = FailureHead(failure, !absl::StrContains(failure.message(), SignalOf(failure)));
  if (!failure.message().empty()) absl::StrAppend(&out, ": ", Escaped(failure.message()));
  if (!failure.last_operation().empty()) {
    absl::StrAppend(&out, "\n  last operation: ", Escaped(failure.last_operation()));
  }
  return out;
}

std::string BriefFailureText(const v1alpha1::FirstFailure& failure) {
  return FailureHead(failure, true);
}

bool SaysFirstFailure(const Job& job, const std::string& text) {
  const std::string& message = job.first_failure().message();
  return !message.empty() && absl::StrContains(text, message);
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string WhyText(const Job& job) {
  const v1alpha1::Condition* why = nullptr;
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.status() == v1alpha1::Condition::TRUE || condition.message().empty()) continue;
    if (condition.type() == "CheckpointRequested") continue;  // an answer, and no reason of a state
    if (why == nullptr ||
        ToTime(condition.last_transition_time()) >= ToTime(why->last_transition_time())) {
      why = &condition;
    }
  }
  return why == nullptr ? "" : Escaped(absl::StrCat(why->reason(), ": ", why->message()));
}
}  // namespace stretto::cli
