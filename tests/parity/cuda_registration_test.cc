// SPDX-License-Identifier: Apache-2.0

// The memory of CUDA executors and the communicators of their groups: NCCL's code on a fake
// library, whose memory is the emulated device's.
#include <cuda_runtime.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/enqueued_ops.h"
#include "tests/parity/specs.h"
#include "tests/worker/comm/device/device_groups.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::parity {
namespace {

using ::stretto::testing::DeviceRanks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CudaRegistrationTest : public ::testing::Test {
 protected:
  CudaRegistrationTest() {
    fake_nccl::Reset();
    fake_nccl::UseMemory(
        [](void** memory, size_t bytes) { return cudaMalloc(memory, bytes) == cudaSuccess; },
        [](void* memory) { (void)cudaFree(memory); });
  }
  ~CudaRegistrationTest() override {
    EXPECT_EQ(Called("MemFree while registered"), 0);
    EXPECT_EQ(Called("CommDeregister of the dead"), 0);
    EXPECT_EQ(Called("MemFree"), Called("MemAlloc"));
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }
  static int Called(const std::string& name) { return fake_nccl::CallsSoFar()[name]; }

  // The executors of all ranks, one for each communicator.
  absl::StatusOr<std::vector<std::unique_ptr<Executor>>> Make(const Layout& layout,
                                                              const DeviceRanks& group,
                                                              bool alike = true) {
    if (backend_ == nullptr) {
      backend_ = *MakeCudaBackend({.make_ops = MakeEnqueuedOps,
                                   .report = [this](const std::string& s) { said_.push_back(s); }});
    }
    std::vector<std::unique_ptr<Executor>> executors;
    for (const auto& communicator : group) {
      plans_.push_back(*BuildPlan(SpecOf(layout), stretto::Rank::Of(communicator->rank())));
      const RankPlan& plan = plans_.back();
      auto executor =
          backend_->MakeExecutor({.step = plan.step,
                                  .program = plan.program,
                                  .arenas = plan.arenas,
                                  .links = {{.device = communicator.get(), .alike = alike}}});
      if (!executor.ok()) return executor.status();
      executors.push_back(*std::move(executor));
    }
    return executors;
  }
  std::string Arena(ArenaClass arena) const { return std::to_string(plans_.back().arenas[arena]); }

  std::vector<std::string> said_;
  std::unique_ptr<Backend> backend_;
  std::vector<RankPlan> plans_;
};

TEST_F(CudaRegistrationTest, WhatCollectivesWorkOnIsRegisteredOnceAndAlikeOnAllRanks) {
  for (bool windows : {true, false}) {
    fake_nccl::Set({.windows = windows});
    const std::string kind = windows ? "window " : "buffer ";
    const DeviceRanks group = stretto::testing::Nccl(2);
    const size_t before = fake_nccl::Registrations(0).size();

    auto executors = *Make(kDomino, group);

    std::vector<std::string> made = fake_nccl::Registrations(0);
    EXPECT_EQ(made, fake_nccl::Registrations(1));
    made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(before));
    // Gradients of replicated weights need no sum here, so activations are all there is.
    EXPECT_THAT(made, ElementsAre(kind + Arena(ArenaClass::kActivation)));
    executors.clear();
    EXPECT_EQ(Called(windows ? "CommWindowDeregister" : "CommDeregister"), 2);
  }
  EXPECT_THAT(said_, IsEmpty());
}

TEST_F(CudaRegistrationTest, WhatIsLentIsRegisteredOnceAndUntilTheLastUserEnds) {
  const DeviceRanks group = stretto::testing::Nccl(2);
  auto training = *Make(kDomino, group);
  const size_t registered = fake_nccl::Registrations(0).size();
  std::vector<std::unique_ptr<Executor>> evaluations;
  for (const auto& communicator : group) {
    const int rank = communicator->rank();
    const RankPlan plan =
        *BuildPlan(SpecOf(kDomino), stretto::Rank::Of(rank), Variant::kEvaluation);
    ExecutorRequest request{.step = plan.step,
                            .program = plan.program,
                            .arenas = plan.arenas,
                            .links = {{.device = communicator.get()}}};
    for (ArenaClass arena : {ArenaClass::kParameter, ArenaClass::kActivation}) {
      request.borrowed[arena] = training[rank]->Lend(arena);
    }
    evaluations.push_back(*backend_->MakeExecutor(std::move(request)));
  }
  EXPECT_EQ(fake_nccl::Registrations(0).size(), registered);
  training.clear();
  EXPECT_EQ(Called("CommWindowDeregister") + Called("CommDeregister"), 0);
  evaluations.clear();
  EXPECT_EQ(Called("CommWindowDeregister") + Called("CommDeregister"), 2);
}

TEST_F(CudaRegistrationTest, WhatTravelsInAnotherTypeIsRegisteredToo) {
  Layout layout = kDomino;
  layout.wire = DType::kBF16;
  const DeviceRanks group = stretto::testing::Nccl(2);
  const auto executors = *Make(layout, group);
  // Of one lane: in and out. Maxima and the like still travel as they are.
  EXPECT_THAT(fake_nccl::Registrations(0), SizeIs(3));
  EXPECT_EQ(fake_nccl::Registrations(0), fake_nccl::Registrations(1));
}

// A window has the same size and offsets on all members.
TEST_F(CudaRegistrationTest, MemoryOfUnlikeMembersIsNotRegistered) {
  Layout layout = kDomino;
  layout.wire = DType::kBF16;
  const DeviceRanks group = stretto::testing::Nccl(2);
  const auto executors = *Make(layout, group, /*alike=*/false);
  EXPECT_THAT(fake_nccl::Registrations(0), IsEmpty());
}

TEST_F(CudaRegistrationTest, MemoryThatIsRefusedIsSaidOnceAndTheExecutorMade) {
  const DeviceRanks group = stretto::testing::Nccl(1);
  std::vector<std::unique_ptr<DeviceCommunicator>> two = stretto::testing::Nccl(2);
  fake_nccl::Set({.registration = ncclSystemError});

  auto executors = Make(kDomino, two);
  ASSERT_TRUE(executors.ok()) << executors.status();
  auto again = Make(kDomino, two);
  ASSERT_TRUE(again.ok()) << again.status();

  ASSERT_THAT(said_, SizeIs(2));  // one for each rank
  EXPECT_THAT(said_[0], HasSubstr("not registered"));
  EXPECT_THAT(said_[0], HasSubstr("rank 0 of 2 (nccl group 'tp'): register"));
  EXPECT_THAT(said_[0], HasSubstr("system error: the fake's last error"));
}

TEST_F(CudaRegistrationTest, MemoryThatNcclDoesNotHaveNamesTheArena) {
  const DeviceRanks group = stretto::testing::Nccl(2);
  fake_nccl::Set({.memory = false});
  const absl::Status status = Make(kDomino, group).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot allocate the activation arena of "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL cannot allocate"));
}

TEST_F(CudaRegistrationTest, AGroupThatDiesMeanwhileEndsTheMaking) {
  const DeviceRanks group = stretto::testing::Nccl(2);
  fake_nccl::Set({.registration = ncclRemoteError, .registration_breaks = true});
  EXPECT_EQ(Make(kDomino, group).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CudaRegistrationTest, ADeadGroupKeepsTheMemoryOfExecutorsThatEnd) {
  {
    const DeviceRanks group = stretto::testing::Nccl(2);
    auto executors = *Make(kDomino, group);
    executors[0]->Cancel();
    EXPECT_EQ(executors[0]->Run().code(), absl::StatusCode::kAborted);

    executors.clear();

    EXPECT_EQ(Called("MemFree"), 0);
  }
  EXPECT_EQ(Called("MemFree"), 2);
}

}  // namespace
}  // namespace stretto::parity
