// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/memory/lives.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"
#include "worker/engine/memory/plan.h"

namespace stretto {
namespace {

// Two buffers of 16 elements on one or two lanes, and the operations.
Program Two(absl::string_view operations) {
  return ProgramOf(
      absl::StrCat("program rank=0 world=1\nlane compute\nlane copy\n"
                   "buffer %0 a f32 16 activation\n"
                   "buffer %1 b f32 16 activation\n"
                   "buffer %2 a.low f32 8 activation alias=%0+0\n"
                   "buffer %3 a.high f32 8 activation alias=%0+8\n"
                   "buffer %4 sum f32 1 output\n",
                   operations));
}

LiveBuffers Live(const Program& program) {
  return LivesOf(program, *HappensBefore::Build(program));
}

// Whether the two may not share addresses. Where they share, the verifier must agree.
bool Apart(Program program) {
  const absl::StatusOr<ArenaBytes> arenas = PlanMemory(&program);
  EXPECT_TRUE(arenas.ok()) << arenas.status();
  const absl::Status verified = Verify(program, &*arenas);
  EXPECT_TRUE(verified.ok()) << verified;
  return program.buffers[0].offset != program.buffers[1].offset;
}

// The same operations for `count` micro-batches, where MB stands for the number.
std::string Repeat(int count, absl::string_view micro_batch) {
  std::string text;
  for (int mb = 0; mb < count; ++mb)
    absl::StrAppend(&text, absl::StrReplaceAll(micro_batch, {{"MB", absl::StrCat("mb", mb)}}));
  int index = 0;
  std::string numbered;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty()))
    absl::StrAppend(&numbered, index++, " ", line, "\n");
  return numbered;
}

TEST(LivesTest, ABufferHasOneLifePerMicroBatch) {
  const LiveBuffers live =
      Live(Two("0 compute zero a fwd mb0 out=%0\n"
               "1 compute sum a fwd mb0 in=%0 out=%4\n"
               "2 compute zero b fwd mb0 out=%1\n"
               "3 compute zero a fwd mb1 out=%0\n"
               "4 compute sum a fwd mb1 in=%0 out=%4\n"
               "5 compute sum b opt in=%1 out=%4\n"));
  ASSERT_EQ(live.of[0].size(), 2u);
  EXPECT_EQ(live.of[0][0].start, 0);
  EXPECT_EQ(live.of[0][0].end, 1);
  EXPECT_EQ(live.of[0][1].start, 3);
  EXPECT_EQ(live.of[0][1].end, 4);
  // A read without a write of its own continues what was there.
  ASSERT_EQ(live.of[1].size(), 1u);
  EXPECT_EQ(live.of[1][0].start, 2);
  EXPECT_EQ(live.of[1][0].end, 5);
  // Only roots, only activations.
  EXPECT_TRUE(live.of[2].empty());
  EXPECT_TRUE(live.of[4].empty());
}

// In its first micro-batch a is done with before b begins; then the next a is written while b is
// still to be read.
TEST(LivesTest, ALaterMicroBatchMayKeepTwoBuffersApart) {
  const std::string first =
      "0 compute zero a fwd mb0 out=%0\n"
      "1 compute sum a fwd mb0 in=%0 out=%4\n"
      "2 compute zero b fwd mb0 out=%1\n";
  EXPECT_FALSE(Apart(Two(first + "3 compute sum b fwd mb0 in=%1 out=%4\n"
                                 "4 compute zero a fwd mb1 out=%0\n"
                                 "5 compute sum a fwd mb1 in=%0 out=%4\n")));
  EXPECT_TRUE(Apart(Two(first + "3 compute zero a fwd mb1 out=%0\n"
                                "4 compute sum b fwd mb0 in=%1 out=%4\n"
                                "5 compute sum a fwd mb1 in=%0 out=%4\n")));
}

// Only the last micro-batch has no successor in front of its tail.
TEST(LivesTest, TheLastMicroBatchMayKeepTwoBuffersApart) {
  const std::string regular =
      "compute zero a fwd MB out=%0\ncompute sum a fwd MB in=%0 out=%4\n"
      "compute zero b fwd MB out=%1\ncompute sum b fwd MB in=%1 out=%4\n";
  const std::string nine = Repeat(9, regular);
  EXPECT_FALSE(Apart(Two(nine)));
  const std::string last =
      "36 compute zero a fwd mb9 out=%0\n"
      "37 compute zero b fwd mb9 out=%1\n"
      "38 compute sum a fwd mb9 in=%0 out=%4\n"
      "39 compute sum b fwd mb9 in=%1 out=%4\n";
  EXPECT_TRUE(Apart(Two(nine + last)));
}

// Each half of a is another micro-batch's, and all of it is read with the second: in between it is
// in use, though nothing touches it.
TEST(LivesTest, ABufferThatSeveralMicroBatchesFillIsInUseUntilItIsRead) {
  const std::string pair =
      "0 compute zero a fwd mb0 out=%2\n"
      "1 compute zero b fwd mb0 out=%1\n"
      "2 compute sum b fwd mb0 in=%1 out=%4\n"
      "3 compute zero a fwd mb1 out=%3\n";
  EXPECT_TRUE(Apart(Two(pair + "4 compute sum a fwd mb1 in=%0 out=%4\n")));
  EXPECT_FALSE(Apart(Two(pair + "4 compute sum a fwd mb1 in=%3 out=%4\n")));
}

// A pattern of two micro-batches shows in pairs of them: the views of a repeat every other one.
TEST(LivesTest, AsManyAreLookedAtAsTheViewsOfABufferRepeatBy) {
  std::string pairs;
  for (int pair = 0; pair < 25; ++pair) {
    absl::StrAppend(&pairs, "compute zero a fwd mb", 2 * pair, " out=%2\n", "compute zero a fwd mb",
                    2 * pair + 1, " out=%3\n", "compute sum a fwd mb", 2 * pair + 1,
                    " in=%0 out=%4\n");
  }
  EXPECT_EQ(Live(Two(Repeat(1, pairs))).of[0].size(), 5u);
}

// What is not read again by its own micro-batch may still be by an operation of none.
TEST(LivesTest, AnOperationOfNoMicroBatchKeepsTwoBuffersApart) {
  EXPECT_TRUE(
      Apart(Two("0 compute zero a opt out=%0\n"
                "1 compute zero b fwd mb0 out=%1\n"
                "2 compute sum b fwd mb0 in=%1 out=%4\n"
                "3 compute sum a opt in=%0 out=%4\n")));
}

// a is written by two lanes, and only one of them comes after b.
TEST(LivesTest, EveryLaneThatEntersALifeMustComeAfter) {
  const std::string unordered =
      "0 compute zero b fwd mb0 out=%1\n"
      "1 compute sum b fwd mb0 in=%1 out=%4\n"
      "2 compute zero a fwd mb0 out=%2\n"
      "3 copy zero a fwd mb0 out=%3\n"
      "4 compute sum a fwd mb0 in=%0 out=%4 wait=3\n";
  EXPECT_TRUE(Apart(Two(unordered)));
  EXPECT_FALSE(Apart(Two(With(unordered, "out=%3", "out=%3 wait=1"))));
}

// Half of a is written for the next micro-batch while the other half is still read.
TEST(LivesTest, LivesThatOverlapAreOne) {
  const LiveBuffers live =
      Live(Two("0 compute zero a fwd mb0 out=%0\n"
               "1 compute zero a fwd mb1 out=%2\n"
               "2 compute sum a fwd mb0 in=%3 out=%4\n"
               "3 compute zero a fwd mb1 out=%3\n"
               "4 compute sum a fwd mb1 in=%0 out=%4\n"));
  ASSERT_EQ(live.of[0].size(), 1u);
  EXPECT_EQ(live.of[0][0].start, 0);
  EXPECT_EQ(live.of[0][0].end, 4);
}

// The same on lanes that do not wait for each other: ordered in the text, not in happens-before.
TEST(LivesTest, LivesWithoutOrderBetweenLanesAreOne) {
  const std::string text =
      "0 compute zero a fwd mb0 out=%2\n"
      "1 copy zero a fwd mb1 out=%3\n";
  EXPECT_EQ(Live(Two(text)).of[0].size(), 1u);
  EXPECT_EQ(Live(Two(With(text, "out=%3", "out=%3 wait=0"))).of[0].size(), 2u);
}

TEST(LivesTest, MicroBatchesInTheMiddleAreNotLookedAt) {
  const std::string regular = "compute zero a fwd MB out=%0\ncompute sum a fwd MB in=%0 out=%4\n";
  EXPECT_EQ(Live(Two(Repeat(5, regular))).of[0].size(), 5u);
  EXPECT_EQ(Live(Two(Repeat(50, regular))).of[0].size(), 5u);
  EXPECT_EQ(Live(Two(Repeat(50, regular))).time, 10);
}

// Without a second use there is no telling what repeats.
TEST(LivesTest, EveryMicroBatchIsLookedAtWhenABufferIsUsedByOne) {
  const std::string regular = "compute zero a fwd MB out=%0\ncompute sum a fwd MB in=%0 out=%4\n";
  const std::string once = With(Repeat(50, regular), "40 compute zero a fwd mb20 out=%0",
                                "40 compute zero b fwd mb20 out=%1");
  EXPECT_EQ(
      Live(Two(With(once, "41 compute sum a fwd mb20 in=%0", "41 compute sum b fwd mb20 in=%1")))
          .of[0]
          .size(),
      49u);
}

}  // namespace
}  // namespace stretto
