// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/session/registration.h"

#include <gtest/gtest.h>

namespace stretto::daemon {
namespace {

namespace v1 = stretto::v1alpha1;

v1::HeldRank Offer(const RankKey& key) {
  v1::HeldRank held;
  held.set_job_uid(key.job_uid);
  held.set_epoch(key.epoch);
  held.set_rank(key.rank);
  return held;
}

void Answer(const RankKey& key, bool keep, int64_t acked, v1::Registered* registered) {
  v1::HeldRankReply* reply = registered->add_held();
  reply->set_job_uid(key.job_uid);
  reply->set_epoch(key.epoch);
  reply->set_rank(key.rank);
  reply->set_keep(keep);
  reply->set_acked_sequence(acked);
}

TEST(AnswersToTest, EachRankGetsTheAnswerOfItsEpoch) {
  const RankKey older{"a", 1, 0}, newer{"a", 2, 0}, other{"b", 2, 0};
  v1::Registered registered;
  Answer(other, false, 0, &registered);
  Answer(newer, true, 7, &registered);
  Answer(older, false, 0, &registered);
  const std::vector<HeldAnswer> answers =
      AnswersTo({Offer(older), Offer(newer), Offer(other)}, registered);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].key, older);
  EXPECT_FALSE(answers[0].keep);
  EXPECT_EQ(answers[1].key, newer);
  EXPECT_TRUE(answers[1].keep);
  EXPECT_EQ(answers[1].acked, 7);
  EXPECT_EQ(answers[2].key, other);
  EXPECT_FALSE(answers[2].keep);
}

TEST(AnswersToTest, ARankThatIsNotMentionedIsKeptWithEveryReport) {
  v1::Registered registered;
  Answer({"a", 1, 1}, false, 9, &registered);
  const std::vector<HeldAnswer> answers = AnswersTo({Offer({"a", 1, 0})}, registered);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0].keep);
  EXPECT_EQ(answers[0].acked, 0);
}

TEST(NotedTest, KeepsTheClusterAndItsNewestEpoch) {
  Membership membership = Noted({}, "here", 0);
  EXPECT_EQ(membership, (Membership{"here", 0}));
  membership = Noted(membership, "here", 7);
  EXPECT_EQ(membership, (Membership{"here", 7}));
  EXPECT_EQ(Noted(membership, "here", 3), (Membership{"here", 7}));
}

TEST(NotedTest, ACoordinatorWithoutAnIdChangesNothing) {
  EXPECT_EQ(Noted({}, "", 5), Membership());
  EXPECT_EQ(Noted({"here", 7}, "", 9), (Membership{"here", 7}));
}

}  // namespace
}  // namespace stretto::daemon
