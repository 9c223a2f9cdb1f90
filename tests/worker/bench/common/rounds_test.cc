// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/common/rounds.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stretto::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A program whose runs take given times, and the last of them in every further run.
class Script {
 public:
  explicit Script(std::vector<double> times) : times_(std::move(times)) {}

  TimedProgram Program(std::string name) {
    return Timed<double>(
        std::move(name), &samples_,
        [this] {
          samples_.push_back(times_[std::min(runs_, times_.size() - 1)]);
          ++runs_;
          return absl::OkStatus();
        },
        [](double seconds) { return seconds; });
  }
  const std::vector<double>& samples() const { return samples_; }
  size_t runs() const { return runs_; }

 private:
  std::vector<double> times_, samples_;
  size_t runs_ = 0;
};

const Say kSilent = [](const std::string&) {};

TEST(RoundsTest, QuietProgramsAreTimedOnceARound) {
  Script a({1, 1.05, 1.02}), b({3});
  std::vector<std::string> said;

  const auto rounds = TimeInRounds({a.Program("a"), b.Program("b")}, 3, 1,
                                   [&](const std::string& line) { said.push_back(line); });

  ASSERT_TRUE(rounds.ok()) << rounds.status();
  EXPECT_THAT(a.samples(), ElementsAre(1, 1.05, 1.02));
  EXPECT_EQ(b.runs(), 3u);
  EXPECT_THAT(said, ElementsAre("round 1 of 3: 2 programs", "round 2 of 3: 2 programs",
                                "round 3 of 3: 2 programs"));
  EXPECT_EQ(rounds->left_out, 0);
  EXPECT_EQ(ToText(*rounds), "");
}

TEST(RoundsTest, WhatWasDisturbedIsTimedAgainAndLeftOut) {
  Script disturbed({1, 2, 1.1, 1.5, 1.04}), quiet({3});

  const auto rounds = TimeInRounds({disturbed.Program("a"), quiet.Program("b")}, 3, 1, kSilent);

  ASSERT_TRUE(rounds.ok()) << rounds.status();
  EXPECT_THAT(disturbed.samples(), ElementsAre(1, 1.1, 1.04));
  EXPECT_EQ(quiet.runs(), 3u);
  EXPECT_THAT(rounds->disturbed, IsEmpty());
  EXPECT_EQ(ToText(*rounds), "2 runs that other work disturbed were repeated\n");
}

TEST(RoundsTest, AFasterRunShowsThatEarlierOnesWereDisturbed) {
  Script program({2, 1, 1});
  ASSERT_TRUE(TimeInRounds({program.Program("a")}, 2, 1, kSilent).ok());
  EXPECT_THAT(program.samples(), ElementsAre(1, 1));
}

TEST(RoundsTest, AProgramThatStaysDisturbedKeepsAllRunsAndIsNamed) {
  Script program({1, 2, 3, 4, 5, 6, 7, 8, 9});

  const auto rounds = TimeInRounds({program.Program("a")}, 2, 1, kSilent);

  ASSERT_TRUE(rounds.ok()) << rounds.status();
  EXPECT_EQ(program.runs(), 8u);
  ASSERT_EQ(rounds->disturbed.size(), 1u);
  EXPECT_EQ(rounds->disturbed[0].program, "a");
  EXPECT_EQ(rounds->disturbed[0].spread, 7);
  EXPECT_EQ(rounds->left_out, 0);
}

TEST(RoundsTest, SeveralSamplesOfARunCountEach) {
  std::vector<double> samples;
  int runs = 0;
  const TimedProgram program = Timed<double>(
      "a", &samples,
      [&] {
        samples.insert(samples.end(), {1, runs++ == 0 ? 2.0 : 1.0});
        return absl::OkStatus();
      },
      [](double seconds) { return seconds; });

  ASSERT_TRUE(TimeInRounds({program}, 1, 2, kSilent).ok());

  EXPECT_EQ(runs, 2);
  EXPECT_THAT(samples, ElementsAre(1, 1, 1));
}

TEST(RoundsTest, AnErrorOfAProgramEndsTheRounds) {
  TimedProgram broken{.name = "broken",
                      .time = [] { return absl::InternalError("lost"); },
                      .seconds = [] { return std::vector<double>(); },
                      .keep = {}};
  EXPECT_EQ(TimeInRounds({broken}, 2, 1, kSilent).status(), absl::InternalError("lost"));
}

TEST(RoundsTest, AReportCountsTheRunsThatWereLeftOut) {
  nlohmann::ordered_json report;
  AddTo(&report, Rounds{.disturbed = {{"a", 0.25}}, .left_out = 3});
  EXPECT_EQ(report.dump(),
            R"({"runs_left_out":3,"most_spread":0.1,"disturbed":[{"program":"a","spread":0.25}]})");
}

}  // namespace
}  // namespace stretto::bench
