// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator::testing {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DriverTest, EverythingIsPersistedBeforeAnythingIsSent) {
  Scene scene;
  scene.Register("a", 1);
  scene.TakeLog();
  scene.Submit("j", 1);
  bool sent = false;
  for (const std::string& line : scene.TakeLog()) {
    sent |= absl::StartsWith(line, "send") || absl::StartsWith(line, "watch");
    EXPECT_FALSE(sent && absl::StartsWith(line, "persist")) << line;
  }
  EXPECT_TRUE(sent);
}

TEST(DriverTest, WhatCannotBeStoredIsNotSentAndIsTakenBack) {
  Scene scene;
  scene.Register("a", 1);
  scene.TakeLog();
  scene.store().FailCommit(1);

  const Result result = scene.Submit("j", 1, "r");

  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.status.message(), "commit of 2 records: fault injected, nothing stored");
  EXPECT_THAT(scene.TakeLog(), Not(Contains(StartsWith("send"))));
  EXPECT_EQ(scene.core().FindJob("j"), nullptr);
  EXPECT_EQ(scene.core().FindJobByUid("uid-j"), nullptr);
  EXPECT_EQ(scene.core().FreeSlots("a"), 1);
  EXPECT_TRUE(scene.Submit("j", 1, "r").status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kPreparing);
  EXPECT_EQ(scene.job("j").epoch, Epoch(2));  // 1 may have been stored: never used again
}

TEST(DriverTest, ReportThatCannotBeStoredIsNotAcknowledged) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  scene.Prepare("j");
  scene.TakeLog();
  scene.store().FailCommit(1);
  EXPECT_FALSE(scene.Exit("j", 0, Completed()).status.ok());
  EXPECT_EQ(scene.job("j").state, JobState::kRunning);
  EXPECT_THAT(scene.TakeLog(), Not(Contains(StartsWith("send"))));
  scene.Replay("j", 0, 2);
  EXPECT_EQ(scene.job("j").state, JobState::kSucceeded);
  EXPECT_EQ(scene.job("j").summary, "summary of j");
}

TEST(DriverTest, RegistrationThatCannotBeStoredLeavesTheWorkerOut) {
  Scene scene;
  scene.store().FailCommit(1);
  EXPECT_FALSE(scene.Register("a", 1).status.ok());
  EXPECT_EQ(scene.core().FindWorker("a"), nullptr);
  EXPECT_TRUE(scene.Register("a", 1).status.ok());
}

TEST(DriverTest, CommitWithALostResponseIsRepairedByTheNextOne) {
  Scene scene;
  scene.Register("a", 1);
  scene.store().FailCommit(1, FaultyStore::Fault::kResponseLost);
  EXPECT_FALSE(scene.Submit("j", 1).status.ok());
  ASSERT_EQ(scene.store().Load()->jobs.size(), 1u);  // the store has it, the core does not

  scene.Submit("k", 1);

  const Snapshot snapshot = *scene.store().Load();
  ASSERT_EQ(snapshot.jobs.size(), 1u);
  EXPECT_EQ(snapshot.jobs[0], *scene.core().FindJob("k"));
  EXPECT_EQ(snapshot.epoch.last, Epoch(2));
  scene.Restart();  // would be DataLoss if both held the slot
  EXPECT_EQ(scene.job("k").state, JobState::kPreparing);
}

TEST(DriverTest, SummaryIsStoredWithTheTransitionThatEndsTheJob) {
  Scene scene;
  scene.Register("a", 1);
  scene.Submit("j", 1);
  EXPECT_EQ(scene.store().Load()->jobs[0].summary, "");
  scene.Prepare("j");
  scene.Complete("j");
  EXPECT_EQ(scene.store().Load()->jobs[0].summary, "summary of j");
}

}  // namespace
}  // namespace stretto::coordinator::testing
