// SPDX-License-Identifier: Apache-2.0

// Steps with seeded noise, and the condition of the job that follows from them.
#include "coordinator/core/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/core/scene.h"

namespace stretto::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A synchronous job: every rank's step ends with that of the slowest rank.
class Ranks {
 public:
  Ranks(std::vector<int32_t> stages, uint64_t seed, double noise)
      : watch_(stages), random_(seed), noise_(0, noise) {
    for (const int32_t size : stages) own_.resize(own_.size() + static_cast<size_t>(size), 0.8);
  }
  // Seconds of a rank's own work, of a step of about a second.
  double& own(int32_t rank) { return own_[static_cast<size_t>(rank)]; }
  const StragglerWatch& watch() const { return watch_; }
  std::vector<int32_t> Found() const {
    std::vector<int32_t> ranks;
    for (const auto& [rank, score] : watch_.stragglers()) ranks.push_back(rank);
    return ranks;
  }
  // Returns how often the verdict has changed.
  int Run(int steps) {
    int changes = 0;
    for (int step = 0; step < steps; ++step) {
      std::vector<double> own = own_;
      for (double& seconds : own) seconds *= std::max(0.1, 1 + noise_(random_));
      const double wall = 0.2 + *std::max_element(own.begin(), own.end());
      for (size_t rank = 0; rank < own.size(); ++rank)
        changes += watch_.Add(static_cast<int32_t>(rank), {.own = own[rank], .wall = wall});
    }
    return changes;
  }
  // The number of steps until the verdict changes, at most `most`.
  int StepsToAChange(int most) {
    for (int steps = 1; steps <= most; ++steps) {
      if (Run(1) > 0) return steps;
    }
    return most + 1;
  }

 private:
  StragglerWatch watch_;
  std::mt19937_64 random_;
  std::normal_distribution<double> noise_;
  std::vector<double> own_;
};

constexpr int kSoon = StragglerWatch::kWindow + StragglerWatch::kEvery;

class StragglerTest : public ::testing::TestWithParam<int32_t> {};

// Among two ranks and among many.
TEST_P(StragglerTest, RankThatIsAFifthSlowerIsFoundSoon) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Ranks ranks({GetParam()}, seed, 0.05);
    ranks.Run(100);
    ASSERT_THAT(ranks.Found(), IsEmpty());
    ranks.own(1) *= 1.2;
    EXPECT_LE(ranks.StepsToAChange(100), kSoon) << "seed " << seed;
    EXPECT_THAT(ranks.Found(), ElementsAre(1));
    EXPECT_NEAR(ranks.watch().stragglers().at(1), 0.16 / 1.16, 0.05);
    ranks.own(1) /= 1.2;
    EXPECT_LE(ranks.StepsToAChange(100), kSoon) << "seed " << seed;
    EXPECT_THAT(ranks.Found(), IsEmpty());
  }
}

TEST_P(StragglerTest, NoiseIsNoStraggler) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    for (const double noise : {0.05, 0.1, 0.2}) {
      Ranks ranks({GetParam()}, seed, noise);
      EXPECT_EQ(ranks.Run(10'000), 0) << "seed " << seed << ", noise " << noise;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, StragglerTest, ::testing::Values(2, 3, 8),
                         ::testing::PrintToStringParamName());

// Between the two limits the verdict stays.
TEST(StragglerHysteresisTest, VerdictDoesNotFlutterAtTheLimit) {
  Ranks ranks({4}, 1, 0.02);
  ranks.own(2) *= 1.15;
  ranks.Run(100);
  ASSERT_THAT(ranks.Found(), ElementsAre(2));
  ranks.own(2) = 0.8 * 1.1;  // 8 % of a step
  EXPECT_EQ(ranks.Run(10'000), 0);
  EXPECT_THAT(ranks.Found(), ElementsAre(2));
}

TEST(StragglerStagesTest, StagesThatDifferByDesignAreNoStragglers) {
  Ranks ranks({2, 1, 4}, 1, 0.05);
  for (const int32_t rank : {0, 1}) ranks.own(rank) = 0.3;
  ranks.own(2) = 2;
  EXPECT_EQ(ranks.Run(1000), 0);
  EXPECT_EQ(ranks.watch().LostSeconds(2), -1);  // nobody has the same work
  ranks.own(5) *= 1.5;
  ranks.Run(100);
  EXPECT_THAT(ranks.Found(), ElementsAre(5));
}

// As of a damaged record.
TEST(StragglerStagesTest, RanksOfNoStageAreIgnored) {
  StragglerWatch watch({2});
  for (const int32_t rank : {-1, 2}) {
    EXPECT_FALSE(watch.Add(rank, {.own = 1, .wall = 1}));
    EXPECT_EQ(watch.LostSeconds(rank), -1);
  }
}

TEST(StragglerTwoTest, TwoSlowRanksAreBothFound) {
  Ranks ranks({6}, 1, 0.02);
  ranks.own(0) *= 1.3;
  ranks.own(4) *= 1.4;
  ranks.Run(64);
  EXPECT_THAT(ranks.Found(), ElementsAre(0, 4));
}

TEST(StragglerOutlierTest, FewSlowStepsAreNoStraggler) {
  Ranks ranks({2}, 1, 0.02);
  for (int i = 0; i < 100; ++i) {
    ranks.own(1) = 4;  // as with a page cache that was dropped
    ranks.Run(3);
    ranks.own(1) = 0.8;
    EXPECT_EQ(ranks.Run(29), 0);
  }
}

// Other programs on its core delay its communication rather than its computation.
TEST(StragglerCpuTest, ARankThatLacksACpuIsFoundAlthoughItsWorkTakesNoLonger) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.05);
  for (const double share_of_1 : {0.35, 0.55}) {
    StragglerWatch watch({2});
    for (int step = 0; step < kSoon; ++step) {
      for (const int32_t rank : {0, 1}) {
        const double preempted = (rank == 1 ? share_of_1 : 0.35) * (1 + noise(random));
        watch.Add(rank, {.own = 0.2, .wall = 1, .preempted = preempted});
      }
    }
    EXPECT_EQ(watch.stragglers().size(), share_of_1 > 0.5 ? 1u : 0u);
    EXPECT_EQ(watch.stragglers().contains(1), share_of_1 > 0.5);
  }
}

// Its computation was delayed, so its work has that time already.
TEST(StragglerCpuTest, TimeWithoutACpuIsNotCountedTwice) {
  StragglerWatch watch({2});
  for (int step = 0; step < kSoon; ++step) {
    watch.Add(0, {.own = 0.3, .wall = 1, .preempted = 0.1});
    watch.Add(1, {.own = 0.8, .wall = 1, .preempted = 0.6});
  }
  EXPECT_NEAR(watch.stragglers().at(1), 0.5, 1e-9);
}

TEST(StragglerLostTest, TimeThatOthersWaitIsAddedUp) {
  Ranks ranks({2}, 1, 0.001);
  ranks.own(1) = 1;
  ranks.Run(200);
  // The first judgement of full windows is at step 40, and counts kEvery steps.
  EXPECT_NEAR(ranks.watch().LostSeconds(1), 0.2 * 168, 0.1);
  EXPECT_NEAR(ranks.watch().LostSeconds(0), 0, 0.01);
}

// ---- the condition

class StragglerConditionTest : public ::testing::Test {
 protected:
  StragglerConditionTest() {
    scene_.policy = RestartPolicy{.max = 3, .backoff = {}, .on = {RestartCause::kCrash}};
    scene_.Register("a", 1);
    scene_.Register("b", 1);
    scene_.Submit("j", 2);
    scene_.Prepare("j");
  }
  void Train(int steps, double own_of_1) {
    for (int i = 0; i < steps; ++i) {
      ++step_;
      scene_.Report("j", 0, StepDone{step_, scene_.now(), {.own = 0.6, .wall = 1}});
      scene_.Report("j", 1, StepDone{step_, scene_.now(), {.own = own_of_1, .wall = 1}});
    }
  }
  std::string Balanced() const {
    const JobRecord job = scene_.job("j");
    const Condition* condition = job.FindCondition("RanksBalanced");
    return condition == nullptr ? "" : absl::StrCat(condition->reason, ": ", condition->message);
  }

  testing::Scene scene_;
  int64_t step_ = 0;
};

TEST_F(StragglerConditionTest, NamesRankWorkerAndHowMuchOthersWait) {
  Train(40, 0.6);
  EXPECT_EQ(Balanced(), "");
  Train(40, 0.84);
  EXPECT_EQ(Balanced(),
            "Straggler: rank 1 on worker b: 1 other rank of its stage waits for it in 24% of each "
            "step");
  EXPECT_THAT(scene_.EventsOf("j"), HasSubstr("RUNNING Straggler: rank 1 on worker b"));
  scene_.TakeLog();
  Train(40, 0.85);
  EXPECT_THAT(scene_.TakeText(), ::testing::Not(HasSubstr("watch j")));  // it is reported once
  Train(40, 0.6);
  EXPECT_EQ(Balanced(), "Balanced: ");
}

// The coordinator dies, and the worker reports all steps again: the old ones find nobody.
TEST_F(StragglerConditionTest, StepsThatAreReportedAgainDoNotCount) {
  Train(40, 0.84);
  Train(40, 0.6);
  ASSERT_EQ(Balanced(), "Balanced: ");
  const std::string events = scene_.EventsOf("j");
  scene_.Restart();
  scene_.Register("a", 1, {{.job = "j", .rank = 0, .last_sequence = 81}});
  scene_.Register("b", 1, {{.job = "j", .rank = 1, .last_sequence = 81}});
  scene_.Replay("j", 0);
  scene_.Replay("j", 1);
  EXPECT_EQ(scene_.EventsOf("j"), events);
  Train(40, 0.84);
  EXPECT_THAT(Balanced(), HasSubstr("rank 1 on worker b"));
}

// A GPU computes on while the threads that feed it wait.
TEST(StragglerOnGpusTest, ACpuThatIsMissingAccusesNobody) {
  for (const int32_t kind : {1, kGpuKind}) {
    testing::Scene scene;
    for (const char* worker : {"a", "b"}) scene.Register(worker, 1, {}, "i1", "host-1", 1);
    scene.Submit("j", 2, "", "", /*validate_only=*/false, kind);
    scene.Prepare("j");
    for (int64_t step = 1; step <= kSoon; ++step) {
      for (const int32_t rank : {0, 1}) {
        const StepTimes times = {.own = 0.2, .wall = 1, .preempted = rank == 1 ? 0.6 : 0.1};
        scene.Report("j", rank, StepDone{step, scene.now(), times});
      }
    }
    const JobRecord job = scene.job("j");
    EXPECT_EQ(job.FindCondition("RanksBalanced") != nullptr, kind == 1);
  }
}

TEST_F(StragglerConditionTest, NextAttemptBeginsAnew) {
  Train(40, 0.84);
  ASSERT_THAT(Balanced(), HasSubstr("Straggler"));
  scene_.Exit("j", 0, testing::Killed(9));
  scene_.Exit("j", 1, testing::Stopped());
  EXPECT_EQ(Balanced(), "Released: ");
  ASSERT_EQ(scene_.job("j").attempt, 2);
  scene_.Prepare("j");
  Train(31, 0.84);
  EXPECT_EQ(Balanced(), "Released: ");
  Train(9, 0.84);
  EXPECT_THAT(Balanced(), HasSubstr("Straggler"));
}

}  // namespace
}  // namespace stretto::coordinator
