// SPDX-License-Identifier: Apache-2.0

// The gate of a job's profile: no time of a schedule that computes anything wrong.

#include "worker/trainer/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/status_macros.h"
#include "tests/worker/engine/exec/forwarding_executor.h"
#include "tests/worker/engine/exec/wrong_bit.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/comm/local/local.h"
#include "worker/trainer/parity.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

// Executors of a profile, in order.
constexpr int kOracle = 0, kSchedule = 1, kCompute = 2, kAll = 5;

// Does the work of one step many times, as if other programs had taken the CPU meanwhile.
class SlowRunExecutor final : public ForwardingExecutor {
 public:
  SlowRunExecutor(std::unique_ptr<Executor> inner, int slow)
      : ForwardingExecutor(std::move(inner)), slow_(slow) {}

  absl::Status Run() override {
    const int times = runs_++ == slow_ ? 30 : 1;
    for (int i = 0; i < times; ++i) RETURN_IF_ERROR(ForwardingExecutor::Run());
    return absl::OkStatus();
  }

 private:
  const int slow_;
  int runs_ = 0;
};

// Of the profile's computations, one run is slow: counted from 0, which is the warm-up.
class SlowRunBackend final : public Backend {
 public:
  SlowRunBackend(std::unique_ptr<Backend> inner, int slow)
      : inner_(std::move(inner)), slow_(slow) {}

  std::string Describe() const override { return inner_->Describe(); }
  absl::StatusOr<int64_t> FreeMemory() const override { return inner_->FreeMemory(); }
  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) override {
    ASSIGN_OR_RETURN(auto executor, inner_->MakeExecutor(std::move(request)));
    if (made_++ != kCompute) return executor;
    return std::make_unique<SlowRunExecutor>(std::move(executor), slow_);
  }

 private:
  const std::unique_ptr<Backend> inner_;
  const int slow_;
  int made_ = 0;
};

struct Profiled {
  v1alpha1::Profile profile;
  int executors = 0;
};

class ProfileTest : public TinyJobTest {
 protected:
  ProfileTest() {
    config_.profile_steps = 1;
    config_.engine.tp_size = 2;
    config_.engine.micro_batches = 1;
    config_.engine.schedule = {.name = "domino_row", .slices = {1, 1}};
  }

  // By rank; on one of them alone, the bit is wrong or a run of the computations is slow.
  std::vector<Profiled> Profile(int wrong_rank = -1, const WrongBit& wrong = {.executor = -1},
                                int slow_run = -1) {
    const auto group = LocalGroup::Create(config_.engine.tp_size);
    std::vector<Profiled> profiled(group.size());
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < config_.engine.tp_size; ++rank) {
      ranks.emplace_back([&, rank] {
        JobConfig config = config_;
        config.rank = Rank::Of(rank);
        const auto ops = MakeCpuOps();
        auto slow = std::make_unique<SlowRunBackend>(MakeCpuBackend(*ops),
                                                     rank == wrong_rank ? slow_run : -1);
        WrongBitBackend backend(std::move(slow),
                                rank == wrong_rank ? wrong : WrongBit{.executor = -1});
        Communicator& link = *group[static_cast<size_t>(rank)];
        auto profile = MeasureProfile(config, *sampler_, {{.host = &link}}, link, backend);
        ASSERT_TRUE(profile.ok()) << profile.status();
        profiled[static_cast<size_t>(rank)] = {*std::move(profile), backend.made()};
      });
    }
    ranks.clear();
    return profiled;
  }

  void ExpectNothingTimed(const std::vector<Profiled>& profiled) {
    for (const Profiled& rank : profiled) {
      EXPECT_FALSE(rank.profile.verified_parity());
      EXPECT_THAT(rank.profile.parity_message(), HasSubstr("serial oracle"));
      EXPECT_EQ(rank.executors, kSchedule + 1);
      v1alpha1::Profile rest = rank.profile;
      rest.clear_parity_message();
      EXPECT_EQ(rest.ByteSizeLong(), 0u) << rest.ShortDebugString();
    }
  }
};

TEST_F(ProfileTest, TimesAScheduleWhoseBitsAreTheOracles) {
  for (const Profiled& rank : Profile()) {
    EXPECT_TRUE(rank.profile.verified_parity()) << rank.profile.parity_message();
    EXPECT_EQ(rank.executors, kAll);
    EXPECT_GT(rank.profile.t_comp(), 0);
    EXPECT_GT(rank.profile.t_comm(), 0);
    EXPECT_GT(rank.profile.t_serial(), 0);
    EXPECT_TRUE(rank.profile.has_spread());
    // Where the kernel does not count the time without a CPU, nothing is reported.
    EXPECT_EQ(rank.profile.has_preempted_share(), std::filesystem::exists("/proc/self/schedstat"));
    EXPECT_GE(rank.profile.preempted_share(), 0);  // above 1 if several threads waited at once
  }
}

// The median hides it, so the spread must not; every rank reports that of the slowest.
TEST_F(ProfileTest, ASlowRepetitionIsInTheSpreadOfEveryRank) {
  config_.profile_steps = 3;
  for (const Profiled& rank : Profile(1, {.executor = -1}, 2)) {
    EXPECT_TRUE(rank.profile.verified_parity()) << rank.profile.parity_message();
    EXPECT_GT(rank.profile.spread(), 5);
  }
}

// A slow warm-up is left out.
TEST_F(ProfileTest, OneRepetitionWithoutItsWarmUpSpreadsNothing) {
  for (const Profiled& rank : Profile(1, {.executor = -1}, 0)) {
    EXPECT_TRUE(rank.profile.has_spread());
    EXPECT_EQ(rank.profile.spread(), 0);
  }
}

// Whichever rank, step and side it is on: in a token's loss, in the gradient norm, in any gradient.
TEST_F(ProfileTest, OneWrongBitFailsParityOnEveryRank) {
  const auto expect_noticed = [&](const std::string& buffer, int64_t element) {
    SCOPED_TRACE(buffer);
    ExpectNothingTimed(Profile(0, {kSchedule, 0, buffer, element}));
    ExpectNothingTimed(Profile(1, {kSchedule, 1, buffer, element}));
    ExpectNothingTimed(Profile(1, {kOracle, 0, buffer, element}));
  };
  expect_noticed("losses", 3);
  expect_noticed("clip_state", kGradNorm);
  for (const Parameter& parameter : ParametersOf(config_.engine.model, 2, 0)) {
    expect_noticed(parameter.name + ".grad", -1);
  }
}

TEST_F(ProfileTest, LossesThatAreNotFiniteFailParity) {
  config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e30;
  ExpectNothingTimed(Profile());
}

TEST(SameBitsTest, NeedsSoundSteps) {
  const StepResult sound{.loss = 2, .gradient_norm = 1, .gradients = 7};
  EXPECT_TRUE(SameBits({sound, sound}, {sound, sound}));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const StepResult& unsound : {StepResult{kInfinity, 1, 7}, StepResult{std::nan(""), 1, 7},
                                    StepResult{2, static_cast<float>(kInfinity), 7},
                                    StepResult{2, 0, 7}}) {  // computed nothing
    EXPECT_FALSE(SameBits({sound, unsound}, {sound, unsound}));
    EXPECT_FALSE(SameBits({unsound, sound}, {unsound, sound}));
  }
}

TEST(SameBitsTest, ComparesEveryStep) {
  const StepResult step{.loss = 2, .gradient_norm = 1, .gradients = 7};
  for (const StepResult& other : {StepResult{3, 1, 7}, StepResult{2, 3, 7}, StepResult{2, 1, 8}}) {
    EXPECT_FALSE(SameBits({step, step}, {step, other}));
    EXPECT_FALSE(SameBits({step, step}, {other, step}));
  }
  EXPECT_FALSE(SameBits({step, step}, {step}));
}

}  // namespace
}  // namespace stretto::trainer
