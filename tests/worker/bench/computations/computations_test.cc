// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/computations/computations.h"

#include <memory>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/worker/trainer/agreement/ranks.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::bench {
namespace {

using Cases = std::map<std::string, KernelCase>;

Cases With(Cases cases, const std::string& key, KernelCase added, int count) {
  added.operation = key;
  added.count = count;
  cases[key] = std::move(added);
  return cases;
}

TEST(TimedComputationsTest, RanksMeasureTheirOwnInOneOrder) {
  const Cases first = With({}, "copy", CopyCase(DType::kF32, 64), 3);
  const Cases second = With(With({}, "copy", CopyCase(DType::kF32, 64), 2), "product",
                            ProductCase(DType::kF32, 64), 1);
  std::vector<ComputationRound> rounds(2);
  std::vector<std::map<std::string, CostProfile::Number>> costs(2);

  const auto found = trainer::OnRanks(2, [&](size_t rank, Communicator& control) -> absl::Status {
    const auto ops = MakeCpuOps();
    const auto backend = MakeCpuBackend(*ops);
    const auto all = TimedComputations::OfAllRanks(rank == 0 ? first : second, control);
    if (!all.ok()) return all.status();
    const auto round = all->Measure(control, *backend);
    if (!round.ok()) return round.status();
    rounds[rank] = *round;
    costs[rank] = all->CostsOf({*round});
    return absl::OkStatus();
  });

  EXPECT_EQ(found, (std::vector<absl::Status>(2)));
  ASSERT_EQ(rounds[0].seconds.size(), 2u);
  EXPECT_EQ(rounds[0].seconds, rounds[1].seconds);
  // A step has as many calls as on the rank that has most of them.
  EXPECT_DOUBLE_EQ(rounds[0].step_seconds, 3 * rounds[0].seconds[0] + rounds[0].seconds[1]);
  ASSERT_EQ(costs[0].size(), 1u);
  EXPECT_EQ(costs[0].at("copy").value, rounds[0].seconds[0]);
  EXPECT_EQ(costs[1].at("copy").value, rounds[0].seconds[0]);
  EXPECT_EQ(costs[1].at("product").value, rounds[0].seconds[1]);
}

// A device that is full.
class FullBackend : public Backend {
 public:
  std::string Describe() const override { return "full"; }
  absl::StatusOr<int64_t> FreeMemory() const override { return 0; }
  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest) override {
    return absl::ResourceExhaustedError("full");
  }
};

TEST(TimedComputationsTest, AnErrorOfOneRankIsOneOfAll) {
  const Cases cases = With({}, "copy", CopyCase(DType::kF32, 64), 1);

  const auto found = trainer::OnRanks(2, [&](size_t rank, Communicator& control) -> absl::Status {
    const auto ops = MakeCpuOps();
    const auto working = MakeCpuBackend(*ops);
    FullBackend full;
    const auto all = TimedComputations::OfAllRanks(cases, control);
    if (!all.ok()) return all.status();
    return all->Measure(control, rank == 0 ? *working : full).status();
  });

  EXPECT_EQ(found[0], absl::InternalError("copy: failed on another rank"));
  EXPECT_EQ(found[1], absl::ResourceExhaustedError("full"));
}

TEST(TimedComputationsTest, AShapeOfSeveralProgramsHasTheMostUsesOfItsWeights) {
  SpecFlags flags{.preset = "gpt-tiny", .layers = 1, .tp = 1};
  const EngineSpec spec = *SpecOf(flags);
  flags.micro_batches = 3;
  const EngineSpec more = *SpecOf(flags);
  Cases alone, both;

  AddComputations(BuildPlan(spec, 0)->program, &alone);
  AddComputations(BuildPlan(spec, 0)->program, &both);
  AddComputations(BuildPlan(more, 0)->program, &both);

  int shared = 0;
  for (const auto& [key, timed] : alone) {
    EXPECT_GE(both.at(key).uses, timed.uses) << key;
    EXPECT_EQ(both.at(key).count, timed.count) << key;
    shared += both.at(key).uses > timed.uses;
  }
  EXPECT_GT(shared, 0);
}

}  // namespace
}  // namespace stretto::bench
