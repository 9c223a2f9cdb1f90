// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "google/protobuf/util/json_util.h"
#include "proto/base/limits.h"

namespace stretto::service {
namespace {

coordinator::JobRecord Record(const std::string& uid, coordinator::JobState state) {
  coordinator::JobRecord record;
  record.id = "gpt";
  record.uid = uid;
  record.state = state;
  record.total_steps = 100;
  return record;
}

v1alpha1::StepReport Step(int64_t step, double seconds = 0.5) {
  v1alpha1::StepReport report;
  report.set_step(step);
  report.set_loss(1.0 / static_cast<double>(step));
  report.set_tokens(64);
  report.set_wall_seconds(seconds);
  auto* entry = report.mutable_ledger()->add_entries();
  entry->set_part(v1alpha1::Ledger::EXPOSED);
  entry->set_group("tp");
  entry->set_phase("backward");
  entry->set_seconds(seconds);
  report.mutable_ledger()->set_wall_seconds(seconds);
  return report;
}

std::vector<int64_t> StepsOf(const JobHistory& history) {
  std::vector<int64_t> steps;
  for (auto step = history.NextStep(0); step; step = history.NextStep(step->step())) {
    steps.push_back(step->step());
  }
  return steps;
}

v1alpha1::Samples Texts(int64_t step, size_t bytes = 3) {
  v1alpha1::Samples samples;
  samples.set_step(step);
  samples.add_samples()->set_text(std::string(bytes, 'x'));
  return samples;
}

std::vector<int64_t> SampledSteps(const v1alpha1::Job& job) {
  std::vector<int64_t> steps;
  for (const v1alpha1::Samples& samples : job.samples()) steps.push_back(samples.step());
  return steps;
}

TEST(JobHistoryTest, TheNewestSamplesAreKeptAlsoWithTheSummary) {
  JobHistory history;
  for (int64_t step = 10; step <= 60; step += 10) history.AddSamples(Texts(step));
  const auto record = Record("u", coordinator::JobState::kSucceeded);
  v1alpha1::Job job;
  history.Describe(record, &job);
  EXPECT_EQ(SampledSteps(job), (std::vector<int64_t>{30, 40, 50, 60}));
  EXPECT_EQ(history.sampled_step(), 60);
  const std::string summary = history.Summary(record);
  v1alpha1::Job restored, ended;
  JobHistory(summary).Describe(record, &restored);
  JobHistory::DescribeEnded(summary, &ended);
  EXPECT_EQ(SampledSteps(restored), SampledSteps(job));
  EXPECT_EQ(SampledSteps(ended), SampledSteps(job));
  history.AddSamples(Texts(45));  // of an attempt that does steps again
  job.Clear();
  history.Describe(record, &job);
  EXPECT_EQ(SampledSteps(job), (std::vector<int64_t>{30, 40, 45}));
  history.AddSamples(Texts(50, JobHistory::kMaxSampleBytes));  // too large to keep
  job.Clear();
  history.Describe(record, &job);
  EXPECT_TRUE(SampledSteps(job).empty());
}

TEST(JobHistoryTest, ProgressFollowsTheLastTenSteps) {
  JobHistory history;
  for (int64_t step = 1; step <= 20; ++step) history.AddStep(0, Step(step, step <= 10 ? 9.0 : 0.5));
  v1alpha1::Job job;
  history.Describe(Record("u", coordinator::JobState::kRunning), &job);
  EXPECT_DOUBLE_EQ(job.progress().tokens_per_second(), 128);
  EXPECT_EQ(job.progress().time_left().seconds(), 40);
  EXPECT_EQ(job.progress().tokens(), 20 * 64);
  EXPECT_DOUBLE_EQ(job.progress().first_loss(), 1);
  EXPECT_DOUBLE_EQ(job.progress().last_loss(), 0.05);
  EXPECT_DOUBLE_EQ(job.progress().ledger().entries(0).seconds(), 95);
  EXPECT_EQ(job.progress().ledger().entries_size(), 1);
}

TEST(JobHistoryTest, ACurveIsAnEvenChoiceWithEveryEvaluation) {
  JobHistory history;
  const int64_t steps = limits::kPageCurveSteps.value + 501;
  for (int64_t number = 1; number <= steps; ++number) {
    v1alpha1::StepReport step = Step(number);
    if (number == 777 || number == 778) step.mutable_evaluation()->set_loss(2);
    history.AddStep(0, step);
  }
  const auto numbers = [](const std::vector<std::string>& serialised, bool ledgers) {
    std::vector<int64_t> out;
    for (const std::string& one : serialised) {
      v1alpha1::StepReport step;
      EXPECT_TRUE(step.ParseFromString(one));
      EXPECT_EQ(step.has_ledger(), ledgers);
      out.push_back(step.step());
    }
    return out;
  };
  const std::vector<int64_t> curve = numbers(history.Curve(limits::kPageCurveSteps.value), false);
  EXPECT_LE(curve.size(), static_cast<size_t>(limits::kPageCurveSteps.value));
  EXPECT_GT(curve.size(), static_cast<size_t>(limits::kPageCurveSteps.value) - 3);
  EXPECT_EQ(curve.front(), 1);
  EXPECT_EQ(curve.back(), steps);
  for (const int64_t evaluated : {777, 778}) {
    EXPECT_EQ(std::count(curve.begin(), curve.end(), evaluated), 1);
  }
  for (size_t i = 1; i < curve.size(); ++i) EXPECT_LE(curve[i] - curve[i - 1], 2);
  const std::vector<int64_t> newest = numbers(history.Newest(60), true);
  EXPECT_EQ(newest.size(), 60u);
  EXPECT_EQ(newest.front(), steps - 59);
  EXPECT_EQ(newest.back(), steps);
  EXPECT_TRUE(JobHistory().Curve(10).empty());
  EXPECT_TRUE(JobHistory().Newest(10).empty());
}

TEST(JobHistoryTest, OldStepsAreForgottenByNumberAndBySize) {
  JobHistory many, large;
  for (int64_t step = 1; step <= limits::kHistorySteps.value + 5; ++step)
    many.AddStep(0, Step(step));
  EXPECT_EQ(many.NextStep(0)->step(), 6);
  v1alpha1::StepReport report = Step(1);
  for (int i = 0; i < 200; ++i) {
    report.mutable_ledger()->add_entries()->set_phase(std::string(200, 'p'));
  }
  const auto bytes = static_cast<int64_t>(report.ByteSizeLong());
  const int64_t fits = limits::kHistoryBytes.value / bytes;
  for (int64_t step = 1; step <= fits + 100; ++step) {
    report.set_step(step);
    large.AddStep(0, report);
  }
  EXPECT_GE(large.NextStep(0)->step(), 100);
  EXPECT_LE(large.NextStep(0)->step(), 300);
  EXPECT_EQ(StepsOf(large).back(), fits + 100);
}

// A client could not print them.
TEST(JobHistoryTest, ImpossibleStepsGiveFiguresThatCanBePrinted) {
  JobHistory history;
  v1alpha1::StepReport step = Step(int64_t{1} << 59, 1e30);
  step.set_tokens(int64_t{1} << 60);
  history.AddStep(0, step);
  v1alpha1::Job job;
  coordinator::JobRecord record = Record("u", coordinator::JobState::kRunning);
  record.total_steps = INT64_MAX;
  history.Describe(record, &job);
  EXPECT_EQ(job.progress().tokens(), INT64_MAX);
  std::string json;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(job, &json).ok());
}

// A kernel that does not say is not one under which nothing was lost.
TEST(JobHistoryTest, AddsUpPreemptedTimeWhereItIsKnown) {
  JobHistory history;
  v1alpha1::StepReport step = Step(1);
  history.AddStep(0, step);
  v1alpha1::Job job;
  history.Describe(Record("u", coordinator::JobState::kRunning), &job);
  EXPECT_FALSE(job.progress().ledger().has_preempted_seconds());
  for (int64_t number : {2, 3}) {
    step.set_step(number);
    step.mutable_ledger()->set_preempted_seconds(0.25);
    step.mutable_ledger()->set_involuntary_switches(4);
    history.AddStep(0, step);
  }
  history.Describe(Record("u", coordinator::JobState::kRunning), &job);
  EXPECT_DOUBLE_EQ(job.progress().ledger().preempted_seconds(), 0.5);
  EXPECT_EQ(job.progress().ledger().involuntary_switches(), 8);
}

TEST(JobHistoryTest, CountsSkippedUpdatesAndKeepsNonFiniteLosses) {
  JobHistory history;
  v1alpha1::StepReport step = Step(1);
  step.set_loss(NAN);
  step.set_update_skipped(true);
  history.AddStep(0, step);
  v1alpha1::Job job;
  history.Describe(Record("u", coordinator::JobState::kRunning), &job);
  EXPECT_EQ(job.progress().skipped_updates(), 1);
  EXPECT_TRUE(std::isnan(job.progress().last_loss()));
}

TEST(JobHistoryTest, NextAttemptReplacesTheStepsThatItDoesAgain) {
  const auto add = [](JobHistory& history, int64_t step, int attempt) {
    v1alpha1::StepReport report = Step(step);
    report.set_attempt(attempt);
    report.set_grad_norm(attempt);
    history.AddStep(0, report);
  };
  JobHistory first;
  for (int64_t step = 1; step <= 5; ++step) add(first, step, 1);
  const coordinator::JobRecord record = Record("u", coordinator::JobState::kRunning);
  // The same if the coordinator restarts between the attempts.
  JobHistory restored(first.Summary(record));
  for (JobHistory* history : {&first, &restored}) {
    for (int64_t step = 4; step <= 6; ++step) add(*history, step, 2);
    EXPECT_EQ(StepsOf(*history), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(history->NextStep(2)->attempt(), 1);
    EXPECT_EQ(history->NextStep(3)->attempt(), 2);
    v1alpha1::Job job;
    history->Describe(record, &job);
    EXPECT_DOUBLE_EQ(job.progress().first_loss(), 1);
    EXPECT_DOUBLE_EQ(job.progress().ledger().wall_seconds(), 8 * 0.5);
  }
}

TEST(JobHistoryTest, StepSentTwiceIsKeptOnce) {
  JobHistory history;
  for (int64_t step : {1, 2, 2, 1, 3}) history.AddStep(0, Step(step));
  EXPECT_EQ(StepsOf(history), (std::vector<int64_t>{1, 2, 3}));
}

TEST(JobHistoryTest, OnlyTheNewestStepsAreKept) {
  JobHistory history;
  const auto extra = int64_t{5};
  const auto most = static_cast<int64_t>(JobHistory::kMaxSteps);
  v1alpha1::StepReport step;
  for (int64_t i = 1; i <= most + extra; ++i) {
    step.set_step(i);
    history.AddStep(0, step);
  }
  EXPECT_EQ(history.NextStep(0)->step(), extra + 1);
  EXPECT_EQ(history.NextStep(most + extra - 1)->step(), most + extra);
  EXPECT_FALSE(history.NextStep(most + extra).has_value());
}

TEST(JobHistoryTest, SummaryThinsEvenlyAndReadsBack) {
  JobHistory history;
  for (int64_t step = 1; step <= 10'001; ++step) history.AddStep(0, Step(step));
  history.AddStep(1, Step(1));
  v1alpha1::Profile profile;
  profile.set_t_comp(0.25);
  history.SetProfile(profile);
  v1alpha1::RankPrepared prepared;
  prepared.set_merged_wgrads(4);
  prepared.add_warm_ups(3);
  history.SetChoices(prepared);
  const auto record = Record("u", coordinator::JobState::kSucceeded);
  const std::string summary = history.Summary(record);
  EXPECT_LT(summary.size(), 200u << 10);

  const JobHistory read(summary);
  const std::vector<int64_t> steps = StepsOf(read);
  ASSERT_EQ(steps.size(), JobHistory::kMaxSummarySteps);
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), 10'001);
  for (size_t i = 1; i < steps.size(); ++i) {
    EXPECT_GE(steps[i] - steps[i - 1], 5);
    EXPECT_LE(steps[i] - steps[i - 1], 6);
  }
  v1alpha1::Job before, after;
  history.Describe(record, &before);
  read.Describe(record, &after);
  EXPECT_EQ(before.SerializeAsString(), after.SerializeAsString());
  EXPECT_EQ(after.progress().rank_ledgers_size(), 2);
  EXPECT_DOUBLE_EQ(after.profile().t_comp(), 0.25);
  EXPECT_EQ(after.merged_wgrads(), 4);
  ASSERT_EQ(after.warm_ups_size(), 1);
  EXPECT_EQ(after.warm_ups(0), 3);
}

v1alpha1::StepReport EvaluatedStep(int64_t step) {
  v1alpha1::StepReport report = Step(step);
  report.mutable_evaluation()->set_loss(static_cast<double>(step));
  return report;
}

TEST(JobHistoryTest, ProgressHasTheLastEvaluationOfRankZero) {
  JobHistory history;
  v1alpha1::Job job;
  history.AddStep(0, Step(1));
  history.Describe(Record("u", coordinator::JobState::kRunning), &job);
  EXPECT_FALSE(job.progress().has_last_evaluation());
  history.AddStep(0, EvaluatedStep(2));
  history.AddStep(0, Step(3));
  history.AddStep(1, EvaluatedStep(4));
  history.Describe(Record("u", coordinator::JobState::kRunning), &job);
  EXPECT_EQ(job.progress().last_evaluation().loss(), 2);
  EXPECT_EQ(job.progress().last_evaluation_step(), 2);
}

// The steps of evaluations: every one of `interval`.
std::vector<int64_t> SummaryOfEvaluatedRun(int64_t steps, int64_t interval) {
  JobHistory history;
  for (int64_t step = 1; step <= steps; ++step)
    history.AddStep(0, step % interval == 0 ? EvaluatedStep(step) : Step(step));
  const auto record = Record("u", coordinator::JobState::kSucceeded);
  const JobHistory read(history.Summary(record));
  EXPECT_LE(StepsOf(read).size(), JobHistory::kMaxSummarySteps);
  EXPECT_GT(StepsOf(read).size(), JobHistory::kMaxSummarySteps / 2);
  EXPECT_EQ(StepsOf(read).front(), 1);
  EXPECT_EQ(StepsOf(read).back(), steps);
  std::vector<int64_t> evaluated;
  for (auto step = read.NextStep(0); step; step = read.NextStep(step->step())) {
    if (step->has_evaluation()) evaluated.push_back(step->step());
  }
  return evaluated;
}

TEST(JobHistoryTest, ASummaryKeepsEveryEvaluationUnlessTheyAreMostOfIt) {
  EXPECT_EQ(SummaryOfEvaluatedRun(10'000, 10).size(), 1'000u);
  EXPECT_LT(SummaryOfEvaluatedRun(10'000, 2).size(), 5'000u);
}

TEST(JobHistoryTest, ARetiredJobKeepsItsProgressWithoutLedgers) {
  Histories histories;
  auto record = Record("long", coordinator::JobState::kRunning);
  record.last_checkpoint = record.best_checkpoint = "step-00000002";
  for (const int64_t step : {1, 2}) {
    for (const int rank : {0, 1}) histories.Of(record).AddStep(rank, Step(step));
  }
  const std::string summary = histories.Of(record).Summary(record);
  v1alpha1::Job whole, kept;
  JobHistory::DescribeEnded(summary, &whole);
  ASSERT_TRUE(whole.progress().has_ledger());
  const std::string shortened = JobHistory::Shortened(summary);
  EXPECT_LT(shortened.size(), 400u);
  JobHistory::DescribeEnded(shortened, &kept);
  EXPECT_EQ(kept.progress().last_loss(), whole.progress().last_loss());
  EXPECT_EQ(kept.progress().last_checkpoint(), "step-00000002");
  EXPECT_FALSE(kept.progress().has_ledger());
  EXPECT_EQ(kept.progress().rank_ledgers_size(), 0);
  EXPECT_FALSE(JobHistory(shortened).NextStep(0).has_value());
  EXPECT_EQ(JobHistory::Shortened("").size(), JobHistory::Shortened("damaged").size());
}

TEST(HistoriesTest, EndedJobsBeyondTheBoundAreReadFromTheirSummary) {
  Histories histories;
  auto first = Record("first", coordinator::JobState::kRunning);
  histories.Of(first).AddStep(0, Step(1));
  histories.Of(first).AddStep(0, Step(2));
  first.state = coordinator::JobState::kSucceeded;
  first.summary = histories.Of(first).Summary(first);
  EXPECT_TRUE(histories.Of(first).NextStep(0)->has_ledger());
  for (size_t i = 0; i < Histories::kMaxEnded; ++i) {
    histories.Of(Record(std::to_string(i), coordinator::JobState::kFailed));
  }
  EXPECT_FALSE(histories.Of(first).NextStep(0)->has_ledger());
  EXPECT_EQ(StepsOf(histories.Of(first)), (std::vector<int64_t>{1, 2}));
}

TEST(HistoriesTest, ActiveJobIsNeverForgotten) {
  Histories histories;
  auto job = Record("job", coordinator::JobState::kRunning);
  histories.Of(job).AddStep(0, Step(1));
  // An end that could not be stored is taken back.
  job.state = coordinator::JobState::kFailed;
  histories.Of(job);
  job.state = coordinator::JobState::kRunning;
  histories.Of(job);
  for (size_t i = 0; i < 2 * Histories::kMaxEnded; ++i) {
    histories.Of(Record(std::to_string(i), coordinator::JobState::kFailed));
  }
  EXPECT_TRUE(histories.Of(job).NextStep(0).has_value());
}

}  // namespace
}  // namespace stretto::service
