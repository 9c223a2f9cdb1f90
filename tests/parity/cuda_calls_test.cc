// SPDX-License-Identifier: Apache-2.0

// What the CUDA executor tells of the calls of groups, with one rank on the emulated device.
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parity/enqueued_ops.h"
#include "tests/parity/rank.h"
#include "tests/parity/specs.h"
#include "worker/comm/call_watch.h"
#include "worker/engine/exec/backend_cuda/cuda_executor.h"
#include "worker/engine/layout/transfers.h"

namespace stretto::parity {
namespace {

class Counts final : public CallWatch {
 public:
  void OnBegin() override {
    EXPECT_EQ(begun, ended) << "calls of a group come one after the other";
    EXPECT_TRUE(polls);
    ++begun;
    peer = -1;
  }
  void OnAwait(int of, bool to_receive) override {
    EXPECT_EQ(begun, ended + 1);
    peer = of;
    receives = to_receive;
  }
  void OnEnd() override { EXPECT_EQ(++ended, begun); }
  void OnPoll(bool now) override {
    EXPECT_NE(now, polls);
    polls = now;
  }

  int begun = 0, ended = 0, peer = -1;
  bool receives = false, polls = false;
};

// One rank of a group. Its calls change nothing, and from one of them on they do not complete. When
// the host has looked at that for long, the group ends.
class StuckDevice final : public DeviceCommunicator {
 public:
  explicit StuckDevice(int size) : size_(size) {}

  // That many more calls complete.
  void StopAfter(int calls) { left_ = calls; }
  // Whether what waits may go on because the step is over; if not, the group ends soon.
  bool Wait() {
    waits_ = !aborted_;
    return aborted_;
  }

  int rank() const override { return 0; }
  int size() const override { return size_; }
  absl::Status Run(const Collective&, void* stream) override {
    EXPECT_FALSE(counts.polls) << "the thread enqueues";
    const cudaError_t error = cuda_emulator::Enqueue(
        static_cast<cudaStream_t>(stream), [this] { --left_; },
        [this] { return left_ > 0 || Wait(); });
    return error == cudaSuccess ? absl::OkStatus() : absl::InternalError("enqueue");
  }
  absl::Status Poll() override {
    if (waits_ && ++polls_ >= 50) return absl::UnavailableError("the peer is gone");
    return absl::OkStatus();
  }
  void Abort() override { aborted_ = true; }

  Counts counts;

 private:
  const int size_;
  int left_ = 1 << 30, polls_ = 0;
  bool waits_ = false;
  std::atomic<bool> aborted_{false};
};

// Rank 0 of a layout.
struct Alone {
  Alone(const Layout& layout, bool graphs) : plan(*BuildPlan(SpecOf(layout), 0)) {
    CudaRank rank{plan.step, plan.program, plan.arenas, {}, {}};
    for (const Group& group : plan.program.groups) {
      devices.push_back(std::make_unique<StuckDevice>(static_cast<int>(group.ranks.size())));
      GroupLink& link = rank.links.emplace_back();
      if (group.ranks.size() == 1) continue;
      link = {.device = devices.back().get(),
              .watch = &devices.back()->counts,
              .alike = MembersAreAlike(SpecOf(layout), 0, group)};
    }
    std::vector<CudaRank> ranks;
    ranks.push_back(std::move(rank));
    const auto make_ops = [this](void* stream) {
      compute = static_cast<cudaStream_t>(stream);
      return MakeEnqueuedOps(stream);
    };
    auto executors = MakeCudaExecutors(
        std::move(ranks),
        {.make_ops = make_ops, .graphs = graphs, .wait = {.timeout = absl::Seconds(60)}});
    EXPECT_TRUE(executors.ok()) << executors.status();
    executor = std::move((*executors)[0]);
  }

  StuckDevice& Of(const std::string& name) {
    return *devices[FindGroup(plan.program.groups, name)];
  }
  int CallsOf(GroupId group) const {
    return static_cast<int>(std::count_if(plan.program.ops.begin(), plan.program.ops.end(),
                                          [&](const Op& op) { return op.group == group; }));
  }
  int CallsOf(const std::string& name) const {
    return CallsOf(FindGroup(plan.program.groups, name));
  }
  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      const absl::Status status = executor->Run();
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  // Runs a step in which something waits in vain.
  void RunIntoTheWall() { EXPECT_EQ(executor->Run().code(), absl::StatusCode::kUnavailable); }

  const RankPlan plan;
  cudaStream_t compute = nullptr;
  IdVector<GroupId, std::unique_ptr<StuckDevice>> devices;
  std::unique_ptr<Executor> executor;
};

const Layout kShared = {.tp_size = 1, .dp_size = 2, .zero = 1, .micro_batches = 3};
const Layout kStages = {.tp_size = 1, .pp_size = 2, .micro_batches = 6};

class CudaCallsTest : public ::testing::TestWithParam<bool> {
 protected:
  ~CudaCallsTest() override {
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }
  const bool graphs_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Both, CudaCallsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Graphs" : "Calls"; });

// Seed 0: all that can run does so when the host looks first. Others: a little at every look.
TEST_P(CudaCallsTest, AfterCompleteStepsEveryCallIsCountedOnce) {
  Layout chain = {.schedule = "domino_row",
                  .tp_size = 4,
                  .pp_size = 2,
                  .stages = {{1, 2}, {1, 4}},
                  .transfer = Transfer::kChain,
                  .slices = {2, 2},
                  .micro_batches = 3};
  Layout large = kDomino;  // the host waits while it enqueues a step
  large.micro_batches = 32;
  Layout staged = kShared;
  staged.pp_size = 2;
  for (const Layout& layout : {kDomino, kShared, kStages, staged, chain, large}) {
    for (uint64_t seed : {0, 1, 2}) {
      cuda_emulator::Seed(seed);
      Alone rank(layout, graphs_);
      for (int steps = 1; steps <= 3; ++steps) {
        rank.Run(1);
        for (GroupId group : rank.devices.ids()) {
          const Counts& counts = rank.devices[group]->counts;
          const bool alone = rank.plan.program.groups[group].ranks.size() == 1;
          EXPECT_EQ(counts.begun, alone ? 0 : steps * rank.CallsOf(group));
          EXPECT_EQ(counts.ended, counts.begun);
          EXPECT_FALSE(counts.polls);
        }
      }
    }
  }
}

TEST_P(CudaCallsTest, ACollectiveThatDoesNotCompleteIsTheCallThatTheRankIsIn) {
  // Some calls of ZeRO come right after each other, with nothing of another lane between them.
  for (const auto& [layout, group] : {std::pair(kDomino, "tp"), std::pair(kShared, "dp")}) {
    const int calls = Alone(layout, graphs_).CallsOf(group);
    ASSERT_GT(calls, 8);
    for (int steps : {0, 2}) {
      for (int call = 0; call < calls; ++call) {
        cuda_emulator::Seed(static_cast<uint64_t>(call) + 1);
        Alone rank(layout, graphs_);
        rank.Run(steps);
        StuckDevice& stuck = rank.Of(group);
        stuck.StopAfter(call);

        rank.RunIntoTheWall();

        EXPECT_EQ(stuck.counts.ended, steps * calls + call);
        EXPECT_EQ(stuck.counts.begun, steps * calls + call + 1);
        EXPECT_EQ(stuck.counts.peer, -1) << "it waits for all of them";
        EXPECT_FALSE(stuck.counts.polls);
      }
    }
  }
}

// Not even if the marks of the lane, of which nothing is enqueued yet, are done from the last step.
TEST_P(CudaCallsTest, WhatTheDeviceHasNotComeToHasNotBegun) {
  const Layout layout = {
      .schedule = "domino_row", .tp_size = 2, .dp_size = 2, .slices = {2, 2}, .micro_batches = 32};
  for (int steps : {0, 1, 2}) {
    Alone rank(layout, graphs_);
    rank.Run(steps);
    rank.Of("tp").StopAfter(1);
    rank.RunIntoTheWall();
    EXPECT_EQ(rank.Of("tp").counts.begun, steps * rank.CallsOf("tp") + 2);
    EXPECT_EQ(rank.Of("dp").counts.begun, steps * rank.CallsOf("dp"));
    EXPECT_EQ(rank.Of("dp").counts.ended, steps * rank.CallsOf("dp"));
  }
}

TEST_P(CudaCallsTest, ARankWhoseComputationDoesNotEndHasNotBegunTheCallBehindIt) {
  Alone rank(kDomino, graphs_);
  StuckDevice& tp = rank.Of("tp");
  ASSERT_EQ(cuda_emulator::Enqueue(
                rank.compute, [] {}, [&] { return tp.Wait(); }),
            cudaSuccess);
  rank.RunIntoTheWall();
  EXPECT_EQ(tp.counts.begun, 0);
}

TEST_P(CudaCallsTest, TransfersNameTheOtherEnd) {
  for (const bool sends : {true, false}) {
    Alone rank(kStages, graphs_);
    StuckDevice& stuck = rank.Of(sends ? "pp.0-1" : "pp.1-0");
    rank.Run(2);
    stuck.StopAfter(1);
    rank.RunIntoTheWall();
    EXPECT_EQ(stuck.counts.ended, 2 * kStages.micro_batches + 1);
    EXPECT_EQ(stuck.counts.begun, 2 * kStages.micro_batches + 2);
    EXPECT_EQ(stuck.counts.peer, sends ? 1 : 0);
    EXPECT_EQ(stuck.counts.receives, !sends);
  }
}

}  // namespace
}  // namespace stretto::parity
