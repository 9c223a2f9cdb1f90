// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/top_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace stretto::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using v1alpha1::Job;
using v1alpha1::Ledger;
using v1alpha1::Worker;

// After 40 of 100 steps of 8 x 64 tokens, 1,024 tokens a second: 2 steps.
Job Running(const std::string& name, const std::string& worker, int ranks) {
  Job job;
  job.set_name("jobs/" + name);
  job.set_state(Job::RUNNING);
  job.mutable_spec()->set_steps(100);
  job.mutable_spec()->set_global_batch_size(8);
  job.mutable_spec()->mutable_model()->set_sequence_length(64);
  job.mutable_progress()->set_steps(40);
  job.mutable_progress()->set_tokens(40 * 8 * 64);
  job.mutable_progress()->set_last_loss(2.5);
  job.mutable_progress()->set_tokens_per_second(1024);
  job.mutable_progress()->mutable_time_left()->set_seconds(30);
  Ledger& ledger = *job.mutable_progress()->mutable_ledger();
  ledger.set_wall_seconds(20);
  for (const char* group : {"tp", "dp"}) {
    Ledger::Entry& entry = *ledger.add_entries();
    entry.set_part(Ledger::EXPOSED);
    entry.set_group(group);
    entry.set_seconds(1);
  }
  Ledger::Entry& compute = *ledger.add_entries();
  compute.set_part(Ledger::COMPUTE_ALONE);
  compute.set_seconds(18);
  for (int rank = 0; rank < ranks; ++rank) job.add_placement()->set_worker("workers/" + worker);
  return job;
}

Worker Ready(const std::string& name, int slots) {
  Worker worker;
  worker.set_name("workers/" + name);
  worker.set_state(Worker::READY);
  worker.set_slots(slots);
  return worker;
}

ClusterView Cluster() {
  ClusterView view;
  view.workers = {Ready("a", 4), Ready("b", 2), Ready("c", 8)};
  view.workers[0].add_jobs("jobs/gpt");
  view.workers[1].set_cordon("new memory");
  view.workers[2].set_state(Worker::LOST);
  view.active = {Running("gpt", "a", 3)};
  Job& waiting = view.waiting.emplace_back();
  waiting.set_name("jobs/bert");
  waiting.set_state(Job::PENDING);
  waiting.mutable_spec()->set_steps(7);
  v1alpha1::Condition& why = *waiting.add_conditions();
  why.set_type("Scheduled");
  why.set_status(v1alpha1::Condition::FALSE);
  why.set_reason("NotEnoughSlots");
  why.set_message("needs 4 slots");
  return view;
}

TEST(TopTextTest, ShowsWhatTheClusterDoes) {
  const std::string text = TopText(Cluster());
  // A lost worker has no slots that anybody could use.
  EXPECT_THAT(text, HasSubstr("Workers  2 ready, 1 lost\nSlots    3 of 6 used\n"
                              "Jobs     1 pending, 1 running\n"));
  EXPECT_THAT(text,
              ContainsRegex("gpt +RUNNING +40/100 +2 +1\\.0k +2\\.5000 +10\\.0 % +30[^ ]*s +3"));
  EXPECT_THAT(text, ContainsRegex("bert +PENDING +0/7 +- +- +- +- +- +0 +NotEnoughSlots: needs 4"));
  EXPECT_THAT(text, ContainsRegex("a +READY +3 +4 +gpt"));
  EXPECT_THAT(text, ContainsRegex("b +READY +0 +2 +- +new memory"));
  EXPECT_THAT(text, ContainsRegex("c +LOST +0 +8"));
  ClusterView many = Cluster();
  many.more_waiting = true;
  EXPECT_THAT(TopText(many), HasSubstr("1 running and more\n"));
}

// As after a restart of the coordinator, until the next step.
TEST(TopTextTest, StepsOfWhichTheNumberAloneIsKnownHaveNoFigures) {
  ClusterView view;
  Job& job = view.active.emplace_back();
  job.set_name("jobs/gpt");
  job.set_state(Job::RUNNING);
  job.mutable_spec()->set_steps(100);
  job.mutable_progress()->set_steps(40);
  EXPECT_THAT(TopText(view), ContainsRegex("gpt +RUNNING +40/100 +- +- +- +- +- +0"));
  for (const char* unknown : {"tokens_per_second", "loss"})
    EXPECT_TRUE(TopDocument(view)["jobs"][0][unknown].is_null()) << unknown;
}

TEST(TopTextTest, AnEmptyClusterIsSaidToBeEmpty) {
  EXPECT_EQ(TopText({}), "Workers  none\nSlots    0 of 0 used\nJobs     none\n");
}

TEST(TopDocumentTest, HasTheSameFiguresAndNullForWhatIsNotKnown) {
  const Document top = TopDocument(Cluster());
  EXPECT_EQ(JsonText(top["slots"], false), "{\"used\":3,\"total\":6}\n");
  const Document& gpt = top["jobs"][0];
  EXPECT_EQ(gpt["steps_per_second"], 2.0);
  EXPECT_EQ(gpt["exposed_share"], 0.1);
  EXPECT_EQ(gpt["loss"], 2.5);
  EXPECT_EQ(gpt["slots"], 3);
  const Document& bert = top["jobs"][1];
  for (const char* unknown : {"steps_per_second", "tokens_per_second", "loss", "exposed_share"}) {
    EXPECT_TRUE(bert[unknown].is_null()) << unknown;
  }
  EXPECT_EQ(top["workers"][1]["cordon"], "new memory");
  EXPECT_EQ(top["workers"][0]["used"], 3);
}

TEST(SpeedOfTest, WhatNobodyHasMeasuredIsNotKnown) {
  EXPECT_TRUE(std::isnan(SpeedOf({}).steps_per_second));
  EXPECT_TRUE(std::isnan(SpeedOf({}).exposed_share));
}

}  // namespace
}  // namespace stretto::cli
