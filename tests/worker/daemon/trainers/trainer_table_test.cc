// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/trainers/trainer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace stretto::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kNow = absl::Seconds(100), kGrace = absl::Seconds(10);

// Rank i has slot first_slot + i.
Assignment MakeAssign(const std::string& uid, int64_t epoch, int ranks = 1, int first_slot = 0) {
  v1alpha1::Assign assign;
  assign.set_job_uid(uid);
  assign.set_epoch(epoch);
  for (int i = 0; i < ranks; ++i) {
    v1alpha1::RankSlot* rank = assign.add_ranks();
    rank->set_rank(i);
    rank->set_slot(first_slot + i);
  }
  return std::make_shared<const v1alpha1::Assign>(assign);
}

class TrainerTableTest : public ::testing::Test {
 protected:
  TrainerTable::Effects Assign(const Assignment& assign) {
    absl::StatusOr<TrainerTable::Effects> effects = table_.Assign(assign);
    EXPECT_TRUE(effects.ok()) << effects.status();
    return effects.ok() ? *std::move(effects) : TrainerTable::Effects();
  }
  // The assignment starts at once.
  void Run(const Assignment& assign) {
    Assign(assign);
    ASSERT_THAT(table_.TakeFree(), ElementsAre(assign));
    for (const v1alpha1::RankSlot& rank : assign->ranks()) {
      const RankKey key{assign->job_uid(), assign->epoch(), rank.rank()};
      ASSERT_TRUE(table_.MayStart(key).ok());
      table_.Started(key, rank.slot());
    }
  }
  // The signals that are due, as "uid epoch rank KILL".
  std::vector<std::string> Due(absl::Duration now) {
    std::vector<std::string> due;
    for (const TrainerTable::Signal& signal : table_.TakeDue(now)) {
      due.push_back(absl::StrCat(signal.key.job_uid, " ", signal.key.epoch, " ", signal.key.rank,
                                 signal.kill ? " KILL" : " TERM"));
    }
    return due;
  }
  std::string WhyNot(const RankKey& key) { return std::string(table_.MayStart(key).message()); }

  TrainerTable table_;
};

TEST_F(TrainerTableTest, AnOlderEpochIsRefusedAndChangesNothing) {
  Run(MakeAssign("a", 3));
  const auto refused = table_.Assign(MakeAssign("a", 2));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(refused.status().message(), "its epoch is 2, and the current one 3");
  EXPECT_EQ(table_.NewestEpoch("a"), 3);
  EXPECT_THAT(table_.waiting(), IsEmpty());
  EXPECT_FALSE(table_.Find({"a", 3, 0})->stopping);
}

TEST_F(TrainerTableTest, ANewerEpochStopsTheOlderAndWaitsForItOnAnySlot) {
  Run(MakeAssign("a", 1));
  const Assignment next = MakeAssign("a", 2, 1, /*first_slot=*/5);
  const TrainerTable::Effects effects = Assign(next);
  EXPECT_THAT(effects.stop, ElementsAre(RankKey{"a", 1, 0}));
  EXPECT_EQ(effects.reason, "a newer epoch was assigned");
  EXPECT_THAT(table_.TakeFree(), IsEmpty());
  EXPECT_THAT(table_.Ended({"a", 1, 0}, /*failed=*/false).stop, IsEmpty());
  EXPECT_THAT(table_.TakeFree(), ElementsAre(next));
  EXPECT_EQ(WhyNot({"a", 1, 0}), "it was stopped before it started");
}

TEST_F(TrainerTableTest, ANewerEpochDoesNotAskAgainWhoIsBeingStopped) {
  Run(MakeAssign("a", 1));
  table_.StopOne({"a", 1, 0}, "nobody wants it");
  table_.Asked({"a", 1, 0}, kNow, absl::Minutes(1), /*reached=*/false);
  EXPECT_THAT(Assign(MakeAssign("a", 2)).stop, IsEmpty());
  EXPECT_EQ(table_.Find({"a", 1, 0})->stop_reason, "nobody wants it");
  EXPECT_EQ(table_.Find({"a", 1, 0})->kill_at, kNow + absl::Minutes(1));
}

TEST_F(TrainerTableTest, ANewerEpochReplacesOneThatWaits) {
  Run(MakeAssign("b", 1));
  table_.StopOne({"b", 1, 0}, "cancelled");
  const Assignment first = MakeAssign("a", 2), second = MakeAssign("a", 3);
  Assign(first);
  EXPECT_THAT(Assign(second).unstarted, ElementsAre(first));
  EXPECT_THAT(table_.waiting(), ElementsAre(second));
}

TEST_F(TrainerTableTest, OnlyTrainersThatAreBeingStoppedInItsSlotsHoldUpAnAssignment) {
  Run(MakeAssign("a", 1, 2));  // slots 0 and 1
  const Assignment other = MakeAssign("b", 2, 1, /*first_slot=*/1);
  table_.StopOne({"a", 1, 0}, "first");
  Run(MakeAssign("c", 3, 1, /*first_slot=*/2));
  table_.StopOne({"a", 1, 1}, "second");
  Assign(other);
  Assign(other);  // again, as after a new session
  EXPECT_THAT(table_.TakeFree(), IsEmpty());
  EXPECT_THAT(table_.waiting(), ElementsAre(other));
  table_.Ended({"a", 1, 0}, false);
  EXPECT_THAT(table_.TakeFree(), IsEmpty());
  table_.Ended({"a", 1, 1}, false);
  EXPECT_THAT(table_.TakeFree(), ElementsAre(other));
  EXPECT_THAT(table_.waiting(), IsEmpty());
}

TEST_F(TrainerTableTest, WhatWaitsIsForgotten) {
  Run(MakeAssign("a", 1));
  table_.StopOne({"a", 1, 0}, "first");
  Assign(MakeAssign("b", 2));
  table_.ForgetWaiting();
  table_.Ended({"a", 1, 0}, false);
  EXPECT_THAT(table_.TakeFree(), IsEmpty());
}

TEST_F(TrainerTableTest, AStopReachesOlderEpochsAndWhatWaitsAndStaysInForce) {
  Run(MakeAssign("a", 2, 2));
  Run(MakeAssign("b", 3, 1, /*first_slot=*/2));
  const Assignment next = MakeAssign("a", 4);
  Assign(next);
  const TrainerTable::Effects effects = table_.Stop("a", 4, "cancelled");
  EXPECT_THAT(effects.unstarted, ElementsAre(next));
  EXPECT_THAT(effects.stop, ElementsAre(RankKey{"a", 2, 0}, RankKey{"a", 2, 1}));
  EXPECT_EQ(effects.reason, "cancelled");
  EXPECT_FALSE(table_.Find({"b", 3, 0})->stopping);
  EXPECT_EQ(WhyNot({"a", 4, 0}), "it was stopped before it started");
  EXPECT_TRUE(table_.MayStart({"a", 5, 0}).ok());
  EXPECT_TRUE(table_.Stop("a", 3, "late").unstarted.empty());
  EXPECT_EQ(WhyNot({"a", 4, 0}), "it was stopped before it started");
}

TEST_F(TrainerTableTest, AnOlderStopDoesNotReachANewerEpoch) {
  Run(MakeAssign("a", 4));
  EXPECT_THAT(table_.Stop("a", 3, "late").stop, IsEmpty());
}

TEST_F(TrainerTableTest, TheFirstFailureStopsTheRestOfTheGang) {
  Run(MakeAssign("a", 1, 3));
  Run(MakeAssign("b", 2, 1, /*first_slot=*/3));
  const TrainerTable::Effects effects = table_.Ended({"a", 1, 1}, /*failed=*/true);
  EXPECT_THAT(effects.stop, ElementsAre(RankKey{"a", 1, 0}, RankKey{"a", 1, 2}));
  EXPECT_EQ(effects.reason, "rank 1 of the job failed");
  EXPECT_EQ(table_.Find({"a", 1, 1}), nullptr);
  EXPECT_EQ(table_.Find({"a", 1, 0})->stop_reason, "rank 1 of the job failed");
  EXPECT_EQ(WhyNot({"a", 1, 5}), "another rank of the job has failed already");
  EXPECT_TRUE(table_.MayStart({"a", 2, 1}).ok());
}

TEST_F(TrainerTableTest, StopAllStopsAllAndStartsNoMore) {
  Run(MakeAssign("a", 1));
  const Assignment waits = MakeAssign("a", 2);
  Assign(waits);
  const TrainerTable::Effects effects = table_.StopAll("worker w is shutting down");
  EXPECT_THAT(effects.unstarted, ElementsAre(waits));
  EXPECT_THAT(effects.stop, ElementsAre(RankKey{"a", 1, 0}));
  EXPECT_EQ(WhyNot({"c", 9, 0}), "the daemon is shutting down");
}

TEST_F(TrainerTableTest, ATrainerHasItsGraceBetweenTheTwoSignals) {
  Run(MakeAssign("a", 1));
  EXPECT_EQ(table_.NextDue(), absl::InfiniteDuration());
  table_.StopOne({"a", 1, 0}, "cancelled");
  EXPECT_THAT(Due(kNow), IsEmpty());  // nobody has asked it yet
  table_.Asked({"a", 1, 0}, kNow, kGrace, /*reached=*/false);
  EXPECT_EQ(table_.NextDue(), kNow);
  EXPECT_THAT(Due(kNow), ElementsAre("a 1 0 TERM"));
  EXPECT_EQ(table_.NextDue(), kNow + kGrace);
  EXPECT_THAT(Due(kNow + kGrace - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(Due(kNow + kGrace), ElementsAre("a 1 0 KILL"));
  EXPECT_THAT(Due(kNow + absl::Hours(1)), IsEmpty());
}

TEST_F(TrainerTableTest, ATrainerThatHeardTheRequestGetsItsSignalLater) {
  Run(MakeAssign("a", 1));
  table_.StopOne({"a", 1, 0}, "cancelled");
  table_.Asked({"a", 1, 0}, kNow, kGrace, /*reached=*/true);
  EXPECT_THAT(Due(kNow + kGrace / 10 - absl::Milliseconds(1)), IsEmpty());
  EXPECT_THAT(Due(kNow + kGrace / 10), ElementsAre("a 1 0 TERM"));
  EXPECT_EQ(table_.NextDue(), kNow + kGrace);
}

TEST_F(TrainerTableTest, DeadlinesOnlyShortenAndTheFirstReasonStays) {
  Run(MakeAssign("a", 1));
  table_.StopOne({"a", 1, 0}, "first");
  table_.Asked({"a", 1, 0}, kNow, kGrace, false);
  table_.Stop("a", 1, "second");
  table_.Asked({"a", 1, 0}, kNow + absl::Seconds(1), absl::Minutes(1), false);
  EXPECT_EQ(table_.Find({"a", 1, 0})->kill_at, kNow + kGrace);
  table_.Asked({"a", 1, 0}, kNow + absl::Seconds(1), absl::Seconds(2), false);
  EXPECT_EQ(table_.Find({"a", 1, 0})->kill_at, kNow + absl::Seconds(3));
  EXPECT_EQ(table_.Find({"a", 1, 0})->stop_reason, "first");
}

// A daemon that looks late sends one signal, not two.
TEST_F(TrainerTableTest, AKillReplacesATermination) {
  Run(MakeAssign("a", 1));
  table_.StopOne({"a", 1, 0}, "cancelled");
  table_.Asked({"a", 1, 0}, kNow, kGrace, false);
  EXPECT_THAT(Due(kNow + kGrace), ElementsAre("a 1 0 KILL"));
}

TEST_F(TrainerTableTest, ATrainerThatSaidItEndsMustEnd) {
  Run(MakeAssign("a", 1, 2));
  table_.ExpectExit({"a", 1, 0}, kNow, kGrace);
  EXPECT_THAT(Due(kNow), IsEmpty());
  table_.ExpectExit({"a", 1, 0}, kNow + absl::Seconds(5), kGrace);  // the report came again
  EXPECT_THAT(Due(kNow + kGrace), ElementsAre("a 1 0 KILL"));
  // A stop has a deadline of its own.
  table_.StopOne({"a", 1, 1}, "cancelled");
  table_.Asked({"a", 1, 1}, kNow, absl::Minutes(1), false);
  table_.ExpectExit({"a", 1, 1}, kNow, kGrace);
  EXPECT_EQ(table_.Find({"a", 1, 1})->kill_at, kNow + absl::Minutes(1));
}

TEST_F(TrainerTableTest, WhatConcernsATrainerThatHasEndedIsIgnored) {
  table_.Asked({"a", 1, 0}, kNow, kGrace, false);
  table_.ExpectExit({"a", 1, 0}, kNow, kGrace);
  table_.NoteSave({"a", 1, 0}, 3);
  EXPECT_EQ(table_.Find({"a", 1, 0}), nullptr);
  EXPECT_THAT(Due(kNow + absl::Hours(1)), IsEmpty());
}

TEST_F(TrainerTableTest, AnAdoptedTrainerIsOneAmongOthersAndAskedAgainIfItWasStopped) {
  table_.NoteEpoch("a", 4);
  table_.NoteEpoch("a", 2);
  table_.Adopted({"a", 4, 0}, /*slot=*/0, /*stopping=*/false, kNow, kGrace);
  table_.Adopted({"a", 4, 1}, /*slot=*/1, /*stopping=*/true, kNow, kGrace);
  EXPECT_EQ(table_.NewestEpoch("a"), 4);
  EXPECT_THAT(Due(kNow), ElementsAre("a 4 1 TERM"));
  EXPECT_EQ(table_.NextDue(), kNow + kGrace);
  Assign(MakeAssign("b", 5, 1, /*first_slot=*/1));
  EXPECT_THAT(table_.TakeFree(), IsEmpty());
  EXPECT_THAT(table_.Ended({"a", 4, 1}, false).stop, IsEmpty());
  EXPECT_EQ(table_.TakeFree().size(), 1u);
}

TEST_F(TrainerTableTest, TheNewestRequestForACheckpointIsKept) {
  Run(MakeAssign("a", 1));
  table_.NoteSave({"a", 1, 0}, 2);
  table_.NoteSave({"a", 1, 0}, 1);
  EXPECT_EQ(table_.Find({"a", 1, 0})->save, 2);
}

}  // namespace
}  // namespace stretto::daemon
