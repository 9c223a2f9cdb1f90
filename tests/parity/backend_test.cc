// SPDX-License-Identifier: Apache-2.0

// What every backend promises, whatever it computes on (worker/engine/exec/backend.h).
#include "worker/engine/exec/backend.h"

#include <cuda_runtime.h>

#include <cstring>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/parity/enqueued_ops.h"
#include "tests/parity/specs.h"
#include "tests/parity/tensors.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::parity {
namespace {

using ::testing::StartsWith;

Ops& SharedOps() {
  static const std::unique_ptr<Ops> ops = MakeCpuOps();
  return *ops;
}

struct Candidate {
  std::string name;
  std::unique_ptr<Backend> (*make)();
};
void PrintTo(const Candidate& candidate, std::ostream* out) { *out << candidate.name; }

std::unique_ptr<Backend> MakeCpu() { return MakeCpuBackend(SharedOps()); }
std::unique_ptr<Backend> MakeEmulated() { return *MakeCudaBackend({.make_ops = MakeEnqueuedOps}); }

class BackendTest : public ::testing::TestWithParam<Candidate> {
 protected:
  ~BackendTest() override { cuda_emulator::Reset(); }

  absl::StatusOr<std::unique_ptr<Executor>> Make(const RankPlan& plan) {
    return backend_->MakeExecutor(
        {.step = plan.step, .program = plan.program, .arenas = plan.arenas, .links = {{}}});
  }
  // An evaluation of the plan's spec in the lender's weights and activations.
  absl::StatusOr<std::unique_ptr<Executor>> MakeEvaluation(const RankPlan& plan,
                                                           const Executor& lender) {
    ExecutorRequest request{
        .step = plan.step, .program = plan.program, .arenas = plan.arenas, .links = {{}}};
    for (ArenaClass arena : {ArenaClass::kParameter, ArenaClass::kActivation})
      request.borrowed[arena] = lender.Lend(arena);
    return backend_->MakeExecutor(std::move(request));
  }
  // Writes inputs that train a little.
  static void Fill(const RankPlan& plan, Executor* executor) {
    const BufferMap map(plan.step);
    for (int mb = 0; mb < plan.step.micro_batches; ++mb) {
      for (BufferId id : {plan.buffers.tokens, plan.buffers.targets}) {
        const TensorView view = executor->HostView(map.Find(id, mb));
        std::iota(view.as<int32_t>(), view.as<int32_t>() + view.count(), mb);
      }
      std::memset(executor->HostView(map.Find(plan.buffers.keys, mb)).data, 0,
                  kKeyCount * sizeof(int32_t));
    }
    if (plan.buffers.master.empty()) return;  // of an evaluation
    float* scalars = executor->HostView(map.Find(plan.buffers.scalars, -1)).as<float>();
    for (int i = 0; i < kScalarCount; ++i) scalars[i] = 0.5f;
    for (BufferId id : plan.buffers.master) {
      ASSERT_TRUE(executor
                      ->Write(map.Find(id, -1),
                              [](TensorView view) {
                                for (int64_t i = 0; i < view.count(); ++i)
                                  view.as<float>()[i] = 0.01f * static_cast<float>(i % 17 - 8);
                                return absl::OkStatus();
                              })
                      .ok());
    }
  }
  static Floats Losses(const RankPlan& plan, Executor* executor) {
    Floats losses;
    for (int mb = 0; mb < plan.step.micro_batches; ++mb) {
      const TensorView view =
          executor->HostView(BufferMap(plan.step).Find(plan.buffers.losses, mb));
      losses.insert(losses.end(), view.as<float>(), view.as<float>() + view.count());
    }
    return losses;
  }

  const std::unique_ptr<Backend> backend_ = GetParam().make();
  const RankPlan plan_ = *BuildPlan(SpecOf({.tp_size = 1, .micro_batches = 3}), 0);
};

TEST_P(BackendTest, SaysWhatItIsAndHasMemory) {
  EXPECT_FALSE(backend_->Describe().empty());
  const absl::StatusOr<int64_t> free = backend_->FreeMemory();
  ASSERT_TRUE(free.ok()) << free.status();
  EXPECT_GT(*free, int64_t{1} << 20);
}

TEST_P(BackendTest, WhatIsWrittenIsRead) {
  const auto executor = *Make(plan_);
  const BufferMap map(plan_.step);
  for (const std::vector<BufferId>* ids : {&plan_.buffers.master, &plan_.buffers.moment1}) {
    const BufferId buffer = map.Find(ids->front(), -1);
    ASSERT_TRUE(executor
                    ->Write(buffer,
                            [](TensorView view) {
                              std::iota(view.as<float>(), view.as<float>() + view.count(), 1.0f);
                              return absl::OkStatus();
                            })
                    .ok());
    const TensorView view = *executor->Read(buffer);
    for (int64_t i = 0; i < view.count(); ++i)
      ASSERT_EQ(view.as<float>()[i], static_cast<float>(i + 1));
  }
  const BufferId tokens = map.Find(plan_.buffers.tokens, 1);
  executor->HostView(tokens).as<int32_t>()[3] = 42;
  EXPECT_EQ(executor->Read(tokens)->as<int32_t>()[3], 42);
}

TEST_P(BackendTest, WhatIsClearedIsZerosAndNothingElseIs) {
  const auto executor = *Make(plan_);
  const BufferMap map(plan_.step);
  const BufferId cleared = map.Find(plan_.buffers.moment1.front(), -1);
  const BufferId kept = map.Find(plan_.buffers.moment2.front(), -1);
  const BufferId tokens = map.Find(plan_.buffers.tokens, 0);
  for (const BufferId buffer : {cleared, kept}) {
    const auto ones = [](TensorView view) {
      std::fill_n(view.as<float>(), view.count(), 1.0f);
      return absl::OkStatus();
    };
    ASSERT_TRUE(executor->Write(buffer, ones).ok());
  }
  executor->HostView(tokens).as<int32_t>()[3] = 42;
  ASSERT_TRUE(executor->Clear(cleared).ok());
  ASSERT_TRUE(executor->Clear(tokens).ok());
  const auto values = [&](BufferId buffer) {
    const TensorView view = *executor->Read(buffer);
    return Floats(view.as<float>(), view.as<float>() + view.count());
  };
  EXPECT_THAT(values(cleared), testing::Each(0.0f));
  EXPECT_THAT(values(kept), testing::Each(1.0f));
  EXPECT_EQ(executor->HostView(tokens).as<int32_t>()[3], 0);
}

TEST_P(BackendTest, AFillThatFailsIsReturned) {
  const auto executor = *Make(plan_);
  EXPECT_EQ(executor->Write(0, [](TensorView) { return absl::DataLossError("torn"); }),
            absl::DataLossError("torn"));
}

TEST_P(BackendTest, AStepReadsInputsAndWritesOutputs) {
  const auto executor = *Make(plan_);
  Fill(plan_, executor.get());
  ASSERT_TRUE(executor->Run().ok());
  const Floats first = Losses(plan_, executor.get());
  for (float loss : first) EXPECT_GT(loss, 0);
  // Other tokens, other losses; the first step has trained, too.
  Fill(plan_, executor.get());
  const BufferMap map(plan_.step);
  executor->HostView(map.Find(plan_.buffers.tokens, 2)).as<int32_t>()[0] = 77;
  ASSERT_TRUE(executor->Run().ok());
  const Floats second = Losses(plan_, executor.get());
  const size_t each = first.size() / 3;
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(2 * each),
                         second.begin()));
  EXPECT_NE(first[2 * each], second[2 * each]);
  EXPECT_EQ(executor->intervals().size(), plan_.program.ops.size());
}

// Before a step it has the loss that the step will have, after it another one: that of the weights
// that the step left. And the step finds its own as if nothing had run in between.
TEST_P(BackendTest, AnEvaluationWorksInTheMemoryOfATrainingStep) {
  const EngineSpec spec = SpecOf({.tp_size = 1, .micro_batches = 3});
  const RankPlan plan = *BuildPlan(spec, 0, Variant::kEvaluation);
  const auto alone = *Make(plan_), training = *Make(plan_);
  const auto evaluation = *MakeEvaluation(plan, *training);
  Fill(plan_, alone.get());
  Fill(plan_, training.get());
  Fill(plan, evaluation.get());
  Floats before, after;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(evaluation->Run().ok());
    before = Losses(plan, evaluation.get());
    ASSERT_TRUE(alone->Run().ok());
    ASSERT_TRUE(training->Run().ok());
    const Floats losses = Losses(plan_, training.get());
    EXPECT_EQ(losses, Losses(plan_, alone.get()));
    EXPECT_TRUE(std::equal(before.begin(), before.end(), losses.begin()));
    ASSERT_TRUE(evaluation->Run().ok());
    after = Losses(plan, evaluation.get());
    EXPECT_NE(before, after);
  }
}

TEST_P(BackendTest, BorrowedMemoryOutlivesItsLender) {
  const RankPlan plan =
      *BuildPlan(SpecOf({.tp_size = 1, .micro_batches = 3}), 0, Variant::kEvaluation);
  auto training = *Make(plan_);
  const auto evaluation = *MakeEvaluation(plan, *training);
  Fill(plan_, training.get());
  Fill(plan, evaluation.get());
  ASSERT_TRUE(evaluation->Run().ok());
  const Floats before = Losses(plan, evaluation.get());
  training.reset();
  ASSERT_TRUE(evaluation->Run().ok());
  EXPECT_EQ(Losses(plan, evaluation.get()), before);
}

TEST_P(BackendTest, BorrowedMemoryThatIsTooSmallIsRefused) {
  RankPlan plan = *BuildPlan(SpecOf({.tp_size = 1, .micro_batches = 3}), 0, Variant::kEvaluation);
  const auto training = *Make(plan_);
  plan.arenas[ArenaClass::kActivation] = int64_t{1} << 30;
  const absl::Status status = MakeEvaluation(plan, *training).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("the borrowed activation arena: found "));
  EXPECT_THAT(std::string(status.message()), ::testing::EndsWith("expected at least 1.0 GiB"));
}

TEST_P(BackendTest, AGroupWithoutALinkIsRefused) {
  const RankPlan plan = *BuildPlan(SpecOf({}), 0);
  EXPECT_EQ(Make(plan).status(),
            absl::InvalidArgumentError("group tp: found none, expected one of 2 ranks"));
}

TEST_P(BackendTest, OnlyInputsAndOutputsAreTheHosts) {
  const auto executor = *Make(plan_);
  EXPECT_DEATH(executor->HostView(BufferMap(plan_.step).Find(plan_.buffers.master[0], -1)),
               "IsHostVisible");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the process instead
TEST_P(BackendTest, SaysHowMuchMemoryThereIsNot) {
  RankPlan plan = plan_;
  plan.arenas[ArenaClass::kActivation] = int64_t{1} << 60;
  const absl::Status status = Make(plan).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("cannot allocate the activation arena of "));
}
#endif

INSTANTIATE_TEST_SUITE_P(Backends, BackendTest,
                         ::testing::Values(Candidate{"cpu", MakeCpu},
                                           Candidate{"cuda_emulated", MakeEmulated}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace stretto::parity
