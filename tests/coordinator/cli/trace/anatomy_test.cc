// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/trace/anatomy.h"

#include <map>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/cli/trace/records.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using v1alpha1::Ledger;

std::vector<std::string> Lines(const std::vector<LedgerSegment>& segments) {
  std::vector<std::string> lines;
  for (const LedgerSegment& segment : segments) {
    lines.push_back(absl::StrCat(segment.span.begin / 1'000'000, "-", segment.span.end / 1'000'000,
                                 " ", SegmentName(segment)));
  }
  return lines;
}

std::map<std::tuple<int, std::string, std::string>, double> Sums(const Ledger& ledger) {
  std::map<std::tuple<int, std::string, std::string>, double> sums;
  for (const Ledger::Entry& entry : ledger.entries()) {
    sums[{entry.part(), entry.group(), entry.phase()}] += entry.seconds();
  }
  return sums;
}

TEST(AnatomyTest, EveryInstantIsOneThing) {
  EXPECT_THAT(
      Lines(Anatomy(MakeProgram(), MakeStep(1))),
      ElementsAre("0-2 data wait", "2-12 compute alone forward", "12-20 compute hiding tp forward",
                  "20-22 compute alone forward", "22-30 exposed tp forward",
                  "30-50 compute alone backward", "50-65 compute hiding tp backward",
                  "65-70 exposed tp backward", "70-85 compute alone optimizer", "85-90 idle",
                  "90-98 checkpoint wait", "98-100 idle"));
}

TEST(AnatomyTest, AnEvaluationIsAPartOfItsOwn) {
  v1alpha1::TraceStep step = MakeStep(1);
  AddInterval(84'000'000, 89'000'000, step.mutable_evaluations());
  const std::vector<std::string> lines = Lines(Anatomy(MakeProgram(), step));
  EXPECT_EQ(std::vector<std::string>(lines.end() - 5, lines.end()),
            (std::vector<std::string>{"70-85 compute alone optimizer", "85-89 evaluation",
                                      "89-90 idle", "90-98 checkpoint wait", "98-100 idle"}));
}

TEST(AnatomyTest, AReceiveIsAWaitForAnotherStage) {
  v1alpha1::TraceProgram program = MakeProgram();
  for (int i : {1, 3}) program.mutable_operations(i)->set_kind("recv");
  const std::vector<std::string> lines = Lines(Anatomy(program, MakeStep(1)));
  EXPECT_EQ(
      std::vector<std::string>(lines.begin(), lines.begin() + 4),
      (std::vector<std::string>{"0-2 data wait", "2-22 compute alone forward",
                                "22-30 pipeline wait forward", "30-50 compute alone backward"}));
}

TEST(AnatomyTest, ItsSumsAreTheLedger) {
  const v1alpha1::TraceStep step = MakeStep(1);
  const Ledger ledger = LedgerOf(Anatomy(MakeProgram(), step));
  const auto found = Sums(ledger), expected = Sums(step.report().ledger());
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [key, seconds] : expected) EXPECT_NEAR(found.at(key), seconds, 1e-12);
  EXPECT_NEAR(ledger.communication_seconds(), 0.036, 1e-12);
  EXPECT_NEAR(ledger.hidden_seconds(), 0.023, 1e-12);
}

// Whatever overlaps, segments follow each other from the step's begin to its end.
TEST(AnatomyTest, SegmentsHaveNoGaps) {
  const v1alpha1::TraceProgram program = MakeProgram();
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    v1alpha1::TraceStep step;
    step.set_end_nanoseconds(100);
    for (int i = 0; i < program.operations_size(); ++i) {
      const int64_t begin = static_cast<int64_t>(random() % 140) - 20;
      AddInterval(begin, begin + static_cast<int64_t>(random() % 40), step.mutable_operations());
    }
    AddInterval(static_cast<int64_t>(random() % 90), 95, step.mutable_data_waits());
    int64_t now = 0;
    for (const LedgerSegment& segment : Anatomy(program, step)) {
      EXPECT_EQ(segment.span.begin, now);
      EXPECT_GT(segment.span.end, now);
      now = segment.span.end;
    }
    EXPECT_EQ(now, 100);
  }
}

}  // namespace
}  // namespace stretto::cli
