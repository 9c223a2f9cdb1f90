// SPDX-License-Identifier: Apache-2.0

// The CUDA executor with one rank on the emulated device, its peers being elsewhere.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/enqueued_ops.h"
#include "tests/parity/rank.h"
#include "tests/parity/specs.h"
#include "worker/comm/emulated_link/emulated_link.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"
#include "worker/engine/layout/transfers.h"

namespace stretto::parity {
namespace {

using ::testing::HasSubstr;

// One rank of a group. Its collectives change nothing; some of them wait for a peer that is gone.
class LonelyDevice final : public DeviceCommunicator {
 public:
  explicit LonelyDevice(int size) : size_(size) {}

  // The peer takes part in that many more collectives.
  void PeerGoesAfter(int collectives) { left_ = collectives; }

  int rank() const override { return 0; }
  int size() const override { return size_; }
  absl::Status Run(const Collective& collective, void* stream) override {
    if (collective.kind != CollectiveKind::kAllReduce) return absl::OkStatus();
    dtypes.push_back(collective.in.dtype);
    const cudaError_t error = cuda_emulator::Enqueue(
        static_cast<cudaStream_t>(stream), [this] { --left_; },
        [this] { return left_ > 0 || aborted_.load(); });
    return error == cudaSuccess ? absl::OkStatus() : absl::InternalError("enqueue");
  }
  absl::Status Poll() override {
    if (left_ > 0) return absl::OkStatus();
    EXPECT_TRUE(!lost_ || cuda_emulator::Graphs().alive == 0) << "an abort would wait for them";
    lost_ = ++polls_ >= 50;
    return lost_ ? absl::UnavailableError("all_reduce: rank 1 is gone") : absl::OkStatus();
  }
  void Abort() override { aborted_.store(true); }

  std::vector<DType> dtypes;

 private:
  const int size_;
  int left_ = 1 << 30, polls_ = 0;
  bool lost_ = false;
  std::atomic<bool> aborted_{false};
};

absl::StatusOr<std::unique_ptr<Executor>> MakeLonely(const RankPlan& plan,
                                                     DeviceCommunicator* communicator,
                                                     bool graphs = true) {
  std::vector<CudaRank> ranks;
  ranks.push_back({plan.step, plan.program, plan.arenas, {{.device = communicator}}, {}});
  auto executors =
      MakeCudaExecutors(std::move(ranks), {.make_ops = MakeEnqueuedOps, .graphs = graphs});
  if (!executors.ok()) return executors.status();
  return std::move((*executors)[0]);
}

RankPlan PlanOf(const Layout& layout) { return *BuildPlan(SpecOf(layout), 0); }

class CudaPeersTest : public ::testing::Test {
 protected:
  ~CudaPeersTest() override {
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }
};

// The third step replays what the first two played and captured.
TEST_F(CudaPeersTest, APeerThatGoesEndsTheStepAndNamesTheCollective) {
  for (bool graphs : {false, true}) {
    for (int steps : {0, 2}) {
      cuda_emulator::Seed(static_cast<uint64_t>(steps) + 1);
      LonelyDevice communicator(2);
      auto executor = *MakeLonely(PlanOf(kDomino), &communicator, graphs);
      for (int step = 0; step < steps; ++step) ASSERT_TRUE(executor->Run().ok());
      EXPECT_EQ(cuda_emulator::Graphs().alive > 0, graphs && steps > 0);
      communicator.PeerGoesAfter(2);

      const absl::Status status = executor->Run();

      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("comm.tp all_reduce L0.proj fwd mb0 s0"));
      EXPECT_THAT(std::string(status.message()), HasSubstr(": all_reduce: rank 1 is gone"));
      EXPECT_EQ(executor->Run(), status);
    }
  }
}

// A launch into a full queue blocks, and nothing would empty it.
TEST_F(CudaPeersTest, APeerThatGoesEndsAStepThatNoStreamCanHold) {
  Layout layout = kDomino;
  layout.micro_batches = 32;
  const RankPlan plan = PlanOf(layout);
  const auto computes = [&](const Op& op) { return op.lane == plan.program.ops[0].lane; };
  ASSERT_GT(std::count_if(plan.program.ops.begin(), plan.program.ops.end(), computes), 1024);
  for (bool graphs : {false, true}) {
    LonelyDevice communicator(2);
    auto executor = *MakeLonely(plan, &communicator, graphs);
    communicator.PeerGoesAfter(2);

    const absl::Status status = executor->Run();

    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("comm.tp all_reduce L0.proj fwd mb0 s0"));
  }
}

struct Outcome {
  std::vector<StepResult> steps;
  Tensors gradients, weights;
};

// Trains by equal ranks as worker/comm/emulated_link has them.
Outcome TrainOnALink(const Layout& layout, bool graphs, uint64_t seed) {
  cuda_emulator::Seed(seed);
  const EngineSpec spec = SpecOf(layout);
  const auto link = *MakeEmulatedLink(
      {.size = 2, .blocks = 2, .latency = absl::Microseconds(1), .bytes_per_second = 1e12});
  const RankPlan plan = *BuildPlan(spec, 0);
  Rank rank(spec, {}, plan, *MakeLonely(plan, link.get(), graphs), 0);
  const absl::Status status = rank.Run(0, 3);
  EXPECT_TRUE(status.ok()) << status;
  return {rank.results, rank.gradients, rank.ReadAll(plan.buffers.master)};
}

TEST_F(CudaPeersTest, GraphsOfCollectivesGiveTheBitsOfCalls) {
  Layout narrow = kDomino;
  narrow.micro_batches = 3;
  narrow.wire = DType::kBF16;
  Layout gathered = narrow;
  gathered.sequence_parallel = true;
  for (const Layout& layout : {narrow, gathered}) {
    const Outcome calls = TrainOnALink(layout, false, 0);
    for (uint64_t seed : {0, 1, 2}) {
      const int before = cuda_emulator::Graphs().launched;
      const Outcome graphs = TrainOnALink(layout, true, seed);
      EXPECT_GT(cuda_emulator::Graphs().launched, before);
      for (size_t step = 0; step < calls.steps.size(); ++step)
        EXPECT_TRUE(SameBits(graphs.steps[step].token_losses, calls.steps[step].token_losses));
      for (size_t i = 0; i < calls.weights.size(); ++i) {
        EXPECT_TRUE(SameBits(graphs.gradients[i], calls.gradients[i]));
        EXPECT_TRUE(SameBits(graphs.weights[i], calls.weights[i]));
      }
    }
  }
}

// What the next stage of a pipeline has done.
struct NextStage {
  int received = 0, returned = 0;
};

// One direction of a stage's transfers: the next stage takes every tensor at once, and returns a
// gradient for each.
class TransferDevice final : public DeviceCommunicator {
 public:
  TransferDevice(NextStage* next, bool sends) : next_(next), sends_(sends) {}

  int rank() const override { return sends_ ? 0 : 1; }
  int size() const override { return 2; }
  absl::Status Run(const Collective& collective, void* stream) override {
    EXPECT_EQ(collective.kind, CollectiveKind::kBroadcast);
    EXPECT_EQ(collective.root, 0);
    const cudaError_t error = cuda_emulator::Enqueue(
        static_cast<cudaStream_t>(stream),
        [this] { ++(sends_ ? next_->received : next_->returned); },
        [this] { return sends_ || next_->returned < next_->received; });
    return error == cudaSuccess ? absl::OkStatus() : absl::InternalError("enqueue");
  }
  absl::Status Register(const std::shared_ptr<void>&, int64_t) override {
    ADD_FAILURE() << "the next stage has memory of another size";
    return absl::OkStatus();
  }
  absl::Status Poll() override { return absl::OkStatus(); }
  void Abort() override {}

 private:
  NextStage* const next_;
  const bool sends_;
};

// A receive is enqueued early, and waits until this stage has sent: it must hold up nothing.
TEST_F(CudaPeersTest, AStageComputesWhileAReceiveWaits) {
  const Layout layout = {.tp_size = 1, .pp_size = 2, .micro_batches = 6};
  const RankPlan plan = PlanOf(layout);
  for (bool graphs : {false, true}) {
    NextStage next;
    LonelyDevice all(2), tied(2);
    TransferDevice forward(&next, true), back(&next, false);
    GroupLinks links;
    for (const Group& group : plan.program.groups) {
      DeviceCommunicator* const device = group.name == "pp.0-1"   ? &forward
                                         : group.name == "pp.1-0" ? &back
                                         : group.name == "pp"
                                             ? static_cast<DeviceCommunicator*>(&all)
                                             : &tied;
      links.push_back({.device = device, .alike = MembersAreAlike(SpecOf(layout), 0, group)});
    }
    std::vector<CudaRank> ranks;
    ranks.push_back({plan.step, plan.program, plan.arenas, links, {}});
    auto executors = *MakeCudaExecutors(
        std::move(ranks),
        {.make_ops = MakeEnqueuedOps, .graphs = graphs, .wait = {.timeout = absl::Seconds(20)}});
    for (int step = 1; step <= 3; ++step) {
      const absl::Status status = executors[0]->Run();
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(next.received, 6 * step);
      EXPECT_EQ(next.returned, 6 * step);
    }
    EXPECT_EQ(cuda_emulator::Graphs().alive > 0, graphs);
  }
}

TEST_F(CudaPeersTest, TensorsTravelInTheTypeOfTheWire) {
  Layout layout = kDomino;
  layout.wire = DType::kBF16;
  LonelyDevice communicator(2);
  auto executor = *MakeLonely(PlanOf(layout), &communicator);
  ASSERT_TRUE(executor->Run().ok());
  EXPECT_GT(std::count(communicator.dtypes.begin(), communicator.dtypes.end(), DType::kBF16), 4);
}

TEST_F(CudaPeersTest, RefusesACommunicatorOfAnotherSizeOrNone) {
  LonelyDevice three(3);
  EXPECT_EQ(MakeLonely(PlanOf(kDomino), nullptr).status(),
            absl::InvalidArgumentError("group tp: found none, expected one of 2 ranks"));
  EXPECT_EQ(
      MakeLonely(PlanOf(kDomino), &three).status(),
      absl::InvalidArgumentError("group tp: found a communicator of 3, expected one of 2 ranks"));
}

}  // namespace
}  // namespace stretto::parity
