// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/ledger.h"

#include <map>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/exec/intervals.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Operations: forward and backward compute, forward and backward all_reduce over tp, one over dp,
// optimizer, a send and a receive between stages and a sum over two of them.
constexpr char kTimesText[] =
    "program rank=0 world=2\n"
    "group tp 0,1\n"
    "group dp 0\n"
    "group pp.tied 0,1\n"
    "group pp.0-1 0,1\n"
    "group pp.1-0 1,0\n"
    "lane compute\n"
    "lane comm.tp\n"
    "lane comm.dp\n"
    "lane comm.pp.tied\n"
    "lane comm.pp.0-1\n"
    "lane comm.pp.1-0\n"
    "buffer %0 x f32 4 input\n"
    "0 compute zero a fwd out=%0\n"
    "1 compute zero b bwd out=%0\n"
    "2 comm.tp all_reduce c fwd in=%0 out=%0 on=tp\n"
    "3 comm.tp all_reduce d bwd in=%0 out=%0 on=tp\n"
    "4 comm.dp all_reduce e bwd in=%0 out=%0 on=dp\n"
    "5 compute zero f opt out=%0\n"
    "6 comm.pp.0-1 send L1.x fwd in=%0 on=pp.0-1\n"
    "7 comm.pp.1-0 recv L1.x bwd out=%0 on=pp.1-0\n"
    "8 comm.pp.tied all_reduce g opt in=%0 out=%0 on=pp.tied\n";
enum {
  kForward,
  kBackward,
  kTpForward,
  kTpBackward,
  kDpBackward,
  kOptimizer,
  kSend,
  kRecv,
  kTied,
  kOps
};

// Intervals in whole seconds.
std::vector<Interval> Seconds(std::map<int, Interval> given) {
  std::vector<Interval> all(kOps);
  for (const auto& [op, interval] : given) {
    all[op] = {interval.begin * kSecond, interval.end * kSecond};
  }
  return all;
}

StepLedger LedgerOf(std::map<int, Interval> given, Interval step, HostWaits waits = {}) {
  for (std::vector<Interval>* list : {&waits.data, &waits.checkpoint, &waits.evaluation}) {
    for (Interval& wait : *list) wait = {wait.begin * kSecond, wait.end * kSecond};
  }
  return ComputeLedger(*Parse(kTimesText), Seconds(std::move(given)), waits,
                       {step.begin * kSecond, step.end * kSecond});
}

std::vector<std::string> Lines(const StepLedger& ledger) {
  std::vector<std::string> lines;
  for (const LedgerEntry& entry : ledger.entries) {
    std::string line = NameOf(entry.part);
    if (!entry.group.empty()) line += " " + entry.group;
    if (!entry.phase.empty()) line += " " + entry.phase;
    lines.push_back(line + " " + std::to_string(static_cast<int>(entry.seconds + 0.5)));
  }
  return lines;
}

TEST(LedgerTest, OverlapSplitsIntoHidingAloneAndExposed) {
  // compute 0..6, communication 4..9
  const StepLedger ledger = LedgerOf({{kForward, {0, 6}}, {kTpForward, {4, 9}}}, {0, 10});
  EXPECT_THAT(Lines(ledger), ElementsAre("compute_hiding tp forward 2", "compute_alone forward 4",
                                         "exposed tp forward 3", "idle 1"));
  EXPECT_DOUBLE_EQ(ledger.seconds, 10);
  EXPECT_DOUBLE_EQ(ledger.communication_seconds, 5);
  EXPECT_DOUBLE_EQ(ledger.hidden_seconds, 2);
  EXPECT_DOUBLE_EQ(ledger.overlap_ratio(), 0.4);
}

TEST(LedgerTest, HidingHasThePhaseOfTheComputation) {
  // The forward's collective is hidden by backward compute.
  const StepLedger ledger = LedgerOf({{kBackward, {0, 4}}, {kTpForward, {1, 3}}}, {0, 4});
  EXPECT_THAT(Lines(ledger),
              ElementsAre("compute_hiding tp backward 2", "compute_alone backward 2"));
}

TEST(LedgerTest, ExposedGoesToTheFirstGroupAndItsPhase) {
  const StepLedger ledger = LedgerOf({{kTpBackward, {2, 4}}, {kDpBackward, {1, 6}}}, {0, 7});
  EXPECT_THAT(Lines(ledger),
              ElementsAre("exposed tp backward 2", "exposed dp backward 3", "idle 2"));
  EXPECT_DOUBLE_EQ(ledger.communication_seconds, 5);
  EXPECT_DOUBLE_EQ(ledger.hidden_seconds, 0);
}

// A receive hides nothing and is no communication; where the rank does nothing else, it waits for
// another stage.
TEST(LedgerTest, AReceiveIsAWaitForAnotherStage) {
  const StepLedger ledger =
      LedgerOf({{kForward, {0, 4}}, {kTpForward, {5, 6}}, {kRecv, {1, 8}}}, {0, 9});
  EXPECT_THAT(Lines(ledger), ElementsAre("compute_alone forward 4", "exposed tp forward 1",
                                         "idle 1", "pipeline_wait backward 3"));
  EXPECT_DOUBLE_EQ(ledger.communication_seconds, 1);
  EXPECT_DOUBLE_EQ(ledger.hidden_seconds, 0);
}

TEST(LedgerTest, GroupsOfAnAxisHaveOneAccount) {
  const StepLedger ledger =
      LedgerOf({{kForward, {0, 2}}, {kSend, {1, 5}}, {kTied, {4, 7}}}, {0, 7});
  EXPECT_THAT(Lines(ledger), ElementsAre("compute_hiding pp forward 1", "compute_alone forward 1",
                                         "exposed pp forward 3", "exposed pp optimizer 2"));
  EXPECT_DOUBLE_EQ(ledger.communication_seconds, 6);
}

TEST(LedgerTest, TheOptimizerIsAPhaseOfCompute) {
  EXPECT_THAT(Lines(LedgerOf({{kOptimizer, {0, 3}}}, {0, 3})),
              ElementsAre("compute_alone optimizer 3"));
}

TEST(LedgerTest, WaitsOfTheHostCountOnlyWhereNothingElseRuns) {
  const StepLedger ledger =
      LedgerOf({{kForward, {4, 6}}}, {0, 10}, {.data = {{0, 5}}, .checkpoint = {{3, 8}}});
  EXPECT_THAT(Lines(ledger),
              ElementsAre("compute_alone forward 2", "data_wait 4", "checkpoint_wait 2", "idle 2"));
}

TEST(LedgerTest, AnEvaluationIsTimeOfItsOwn) {
  const StepLedger ledger = LedgerOf({{kForward, {0, 4}}}, {0, 10},
                                     {.data = {}, .checkpoint = {{7, 9}}, .evaluation = {{3, 8}}});
  EXPECT_THAT(Lines(ledger), ElementsAre("compute_alone forward 4", "checkpoint_wait 2", "idle 1",
                                         "evaluation 3"));
  EXPECT_DOUBLE_EQ(ledger.seconds, 10);
}

TEST(LedgerTest, EverythingIsClippedToTheStep) {
  const StepLedger ledger =
      LedgerOf({{kForward, {0, 20}}, {kTpForward, {0, 6}}, {kTpBackward, {14, 30}}}, {5, 15},
               {.data = {{-5, 50}}, .checkpoint = {}});
  EXPECT_THAT(Lines(ledger), ElementsAre("compute_hiding tp forward 2", "compute_alone forward 8"));
  EXPECT_DOUBLE_EQ(ledger.communication_seconds, 2);
}

TEST(LedgerTest, AnEmptyStepHasNoEntries) {
  const StepLedger ledger = LedgerOf({{kForward, {0, 20}}}, {5, 5});
  EXPECT_THAT(ledger.entries, IsEmpty());
  EXPECT_EQ(ledger.overlap_ratio(), 0);
}

// Against the definition, second by second.
TEST(LedgerTest, RandomIntervalsSumToTheSpanAndMatchTheDefinition) {
  std::mt19937_64 random(4);
  auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int round = 0; round < 200; ++round) {
    std::map<int, Interval> given;
    for (int op = 0; op < kOps; ++op) {
      const int64_t begin = below(40) - 5;
      given[op] = {begin, begin + below(12)};
    }
    const int64_t begin = below(10), end = begin + below(30);
    const StepLedger ledger = LedgerOf(given, {begin, end});
    double compute = 0, communication = 0, both = 0, sum = 0, exposed = 0, waited = 0;
    for (int64_t t = begin; t < end; ++t) {
      auto open = [&](int op) { return given[op].begin <= t && t < given[op].end; };
      const bool c = open(kForward) || open(kBackward) || open(kOptimizer);
      const bool m =
          open(kTpForward) || open(kTpBackward) || open(kDpBackward) || open(kSend) || open(kTied);
      compute += c, communication += m, both += c && m;
      waited += open(kRecv) && !c && !m;
    }
    double ledger_compute = 0, ledger_waited = 0;
    for (const LedgerEntry& entry : ledger.entries) {
      sum += entry.seconds;
      if (entry.part == LedgerPart::kExposed) exposed += entry.seconds;
      if (entry.part == LedgerPart::kPipelineWait) ledger_waited += entry.seconds;
      if (entry.part == LedgerPart::kComputeHiding || entry.part == LedgerPart::kComputeAlone)
        ledger_compute += entry.seconds;
    }
    EXPECT_NEAR(sum, static_cast<double>(end - begin), 1e-9);
    EXPECT_NEAR(ledger.communication_seconds, communication, 1e-9);
    EXPECT_NEAR(ledger.hidden_seconds, both, 1e-9);
    EXPECT_NEAR(ledger_compute, compute, 1e-9);
    EXPECT_NEAR(exposed, communication - both, 1e-9);
    EXPECT_NEAR(ledger_waited, waited, 1e-9);
  }
}

}  // namespace
}  // namespace stretto
