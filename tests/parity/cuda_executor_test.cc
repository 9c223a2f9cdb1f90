// SPDX-License-Identifier: Apache-2.0

// The CUDA executor on an emulated device: the programs of all ranks on one set of streams.
#include "worker/engine/exec/backend_cuda/cuda_executor.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/enqueued_ops.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "worker/engine/exec/backend_cuda/instance_player.h"
#include "worker/engine/exec/ledger.h"

namespace stretto::parity {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Setting {
  bool graphs = true;
  uint64_t seed = 0;
};

std::vector<CudaRank> RanksOf(const std::vector<RankPlan>& plans) {
  std::vector<CudaRank> ranks;
  for (const RankPlan& plan : plans)
    ranks.push_back({plan.step, plan.program, plan.arenas, {}, {}});
  return ranks;
}

MakeMachine CudaMachine(const Setting& setting) {
  return [=](const std::vector<RankPlan>& plans, const Options&) {
    cuda_emulator::Seed(setting.seed);
    auto executors =
        MakeCudaExecutors(RanksOf(plans), {.make_ops = MakeEnqueuedOps, .graphs = setting.graphs});
    EXPECT_TRUE(executors.ok()) << executors.status();
    Machine machine;
    machine.executors = *std::move(executors);
    return machine;
  };
}

class CudaExecutorTest : public ::testing::Test {
 protected:
  ~CudaExecutorTest() override {
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }
};

class CudaParityTest : public CudaExecutorTest, public ::testing::WithParamInterface<Layout> {};

TEST_P(CudaParityTest, HasTheBitsOfTheCpuWhateverTheOrderOfStreams) {
  const EngineSpec spec = SpecOf(GetParam());
  const Options options = {.steps = 3};
  const Result cpu = Train(spec, options);
  for (uint64_t seed : {0, 1, 2}) {
    for (bool graphs : {false, true})
      ExpectSameBits(Train(spec, options, CudaMachine({graphs, seed})), cpu);
  }
}

std::vector<Layout> Layouts() {
  std::vector<Layout> layouts;
  for (int micro_batches : {1, 3}) {
    layouts.push_back({.schedule = "megatron_sync", .micro_batches = micro_batches});
    layouts.push_back({.schedule = "domino_row", .slices = {2, 2}, .micro_batches = micro_batches});
  }
  layouts.push_back({.schedule = "helix", .micro_batches = 3});
  layouts.push_back({.family = Family::kLlama,
                     .schedule = "helix",
                     .slices = {2, 2},
                     .sequence_parallel = true,
                     .recompute = Recompute::kFull,
                     .dropout = 0.1,
                     .micro_batches = 8});
  layouts.push_back({.schedule = "megatron_sync", .tp_size = 1});
  layouts.push_back({.family = Family::kLlama, .schedule = "megatron_async", .micro_batches = 2});
  layouts.push_back({.family = Family::kLlama,
                     .schedule = "domino_row",
                     .slices = {2, 2},
                     .sequence_parallel = true,
                     .micro_batches = 2,
                     .dtype = DType::kBF16});
  layouts.push_back({.schedule = "domino_hybrid",
                     .tp_size = 4,
                     .slices = {2, 2},
                     .splits = 2,
                     .micro_batches = 2});
  layouts.push_back({.schedule = "domino_row",
                     .slices = {2, 2},
                     .sequence_parallel = true,
                     .dropout = 0.1,
                     .defer_wgrads = 1,
                     .micro_batches = 4,
                     .wire = DType::kBF16});
  layouts.push_back({.schedule = "nanotron", .slices = {2, 2}, .micro_batches = 2});
  // An instance of several micro-batches, and with domino_row the tail of the one before them.
  for (const char* schedule : {"megatron_sync", "domino_row"}) {
    layouts.push_back({.schedule = schedule,
                       .slices = std::string(schedule) == "domino_row" ? std::vector<int>{2, 2}
                                                                       : std::vector<int>{4},
                       .merge_wgrads = 2,
                       .micro_batches = 4});
  }
  // Replicas and stages, which are unlike.
  layouts.push_back({.tp_size = 1, .dp_size = 2, .micro_batches = 2});
  layouts.push_back({.schedule = "domino_row", .pp_size = 2, .slices = {2, 2}, .micro_batches = 3});
  layouts.push_back({.tp_size = 1, .dp_size = 2, .zero = 1, .pp_size = 2, .micro_batches = 3});
  layouts.push_back({.family = Family::kLlama,
                     .tp_size = 1,
                     .pp_size = 2,
                     .pipeline = "1f1b",
                     .wgrad_delay = WgradDelay::kBubble,
                     .micro_batches = 4,
                     .dtype = DType::kBF16});
  layouts.push_back({.tp_size = 1,
                     .pp_size = 3,
                     .pipeline = "eager_1f1b",
                     .micro_batches = 5,
                     .layers = 3,
                     .wire = DType::kBF16});
  layouts.push_back({.schedule = "domino_row",
                     .pp_size = 2,
                     .pipeline = "eager_1f1b",
                     .slices = {2, 2},
                     .micro_batches = 4});
  // Stages of several TP sizes, by every way of transfers.
  for (Transfer transfer : {Transfer::kSend, Transfer::kChain, Transfer::kGather}) {
    layouts.push_back({.schedule = "domino_row",
                       .tp_size = 4,
                       .pp_size = 2,
                       .stages = {{1, 2}, {1, 4}},
                       .transfer = transfer,
                       .slices = {2, 2},
                       .micro_batches = 3});
  }
  layouts.push_back({.schedule = "domino_row",
                     .tp_size = 4,
                     .pp_size = 3,
                     .stages = {{1, 4}, {1, 2}, {1, 1}},
                     .slices = {2, 2},
                     .sequence_parallel = true,
                     .micro_batches = 3,
                     .layers = 3});
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaParityTest, ::testing::ValuesIn(Layouts()), NameOfLayout);

// Every rank's gradients and weights after a step.
std::vector<Tensors> AfterOneStep(const EngineSpec& spec, const MakeMachine& make) {
  Job job(spec, {}, make);
  EXPECT_TRUE(job.Run(1).ok());
  std::vector<Tensors> state;
  for (size_t r = 0; r < job.size(); ++r) {
    state.push_back(job.rank(r).gradients);
    state.push_back(job.rank(r).ReadAll(job.rank(r).plan().buffers.master));
  }
  return state;
}

// What both public Domino code bases shipped: a missing wait. Some order of the streams shows it.
TEST_F(CudaExecutorTest, AMissingWaitGivesAnotherResult) {
  const EngineSpec spec = SpecOf({.schedule = "domino_row", .slices = {2, 2}, .micro_batches = 2});
  const std::vector<Tensors> right = AfterOneStep(spec, CpuMachine);
  const RankPlan plan = *BuildPlan(spec, 0);
  int tried = 0, seen = 0;
  for (OpId op = 0; op < plan.program.ops.next(); op = op + 3) {
    if (plan.program.ops[op].waits.empty()) continue;
    bool differs = false;
    for (uint64_t seed = 1; seed <= 8 && !differs; ++seed) {
      const std::vector<Tensors> found =
          AfterOneStep(spec, [&](std::vector<RankPlan> plans, const Options& options) {
            for (RankPlan& broken : plans) broken.program.ops[op].waits.clear();
            return CudaMachine({.seed = seed})(plans, options);
          });
      for (size_t i = 0; i < right.size(); ++i) differs |= !SameBits(found[i], right[i]);
    }
    ++tried;
    seen += differs;
  }
  EXPECT_GT(tried, 10);
  // Some waits only guard memory that is used again with nothing in between to lose.
  EXPECT_GE(seen, tried * 3 / 4) << "of " << tried;
}

// The embedding's table, which the first operation reads, is written last.
TEST_F(CudaExecutorTest, AStepSeesWhatWasWrittenBeforeIt) {
  const EngineSpec spec = SpecOf({.tp_size = 1});
  const auto losses = [&](const MakeMachine& make) {
    Job job(spec, {}, make);
    Floats table = job.rank(0).Read(job.rank(0).plan().buffers.master[0]);
    for (float& value : table) value = 0.5f * value + 0.01f;
    job.rank(0).SetWeight(0, table);
    EXPECT_TRUE(job.Run(1).ok());
    return job.rank(0).results[0].token_losses;
  };
  const Floats right = losses(CpuMachine);
  for (uint64_t seed = 1; seed <= 16; ++seed)
    EXPECT_TRUE(SameBits(losses(CudaMachine({.seed = seed})), right)) << seed;
}

TEST_F(CudaExecutorTest, UnitsAreCapturedOncePerSlotAndReplayed) {
  const EngineSpec spec = SpecOf({.schedule = "domino_row", .slices = {2, 2}, .micro_batches = 6});
  cuda_emulator::Reset();
  Job job(spec, {}, CudaMachine({}));
  ASSERT_TRUE(job.Run(4).ok());
  const int steps = 4, instances = static_cast<int>(job.rank(0).plan().step.instances.size());
  const cuda_emulator::GraphCounts counts = cuda_emulator::Graphs();
  // begin, first, two slots of next and finish; the second instance of each slot of next differs in
  // nothing, the first after `first` may. Each plays call by call once.
  EXPECT_GE(counts.instantiated, 4);
  EXPECT_LE(counts.instantiated, 7);
  EXPECT_GE(counts.launched, (steps - 1) * (instances - 2));
}

// All micro-batches are in flight, each in memory of its own.
TEST_F(CudaExecutorTest, TheRarestOfTooManyShapesArePlayedCallByCall) {
  const EngineSpec spec =
      SpecOf({.tp_size = 1, .pp_size = 2, .pipeline = "gpipe", .slices = {1}, .micro_batches = 40});
  cuda_emulator::Reset();
  ExpectSameBits(Train(spec, {.steps = 3}, CudaMachine({})), Train(spec, {.steps = 3}));
  EXPECT_EQ(cuda_emulator::Graphs().instantiated, static_cast<int>(cuda::kMaxGraphs));
}

TEST_F(CudaExecutorTest, ANormBehindAResidualIsOneCallWithIt) {
  EnqueuedOps::pairs = 0;
  Train(SpecOf({.tp_size = 1}), {}, CudaMachine({.graphs = false}));
  // Two layers with two residuals each, the last one's norm being that of the head.
  EXPECT_EQ(EnqueuedOps::pairs, 4);
}

TEST_F(CudaExecutorTest, TheGradientsOfANormAreOneCall) {
  EnqueuedOps::gradient_pairs = 0;
  Train(SpecOf({.tp_size = 1}), {}, CudaMachine({.graphs = false}));
  // Two layers with two norms each, and that of the head.
  EXPECT_EQ(EnqueuedOps::gradient_pairs, 5);
}

TEST_F(CudaExecutorTest, KernelsLeaveSmsToCollectivesThatMayBeUnderWay) {
  cudaDeviceProp device = {};
  ASSERT_EQ(cudaGetDeviceProperties(&device, 0), cudaSuccess);
  ASSERT_GT(device.multiProcessorCount, 1);
  const auto limits = [&](const Layout& layout, int collective_sms) {
    EnqueuedOps::limits.clear();
    auto executors = *MakeCudaExecutors(
        RanksOf(*BuildPlans(SpecOf(layout))),
        {.make_ops = MakeEnqueuedOps, .graphs = false, .collective_sms = collective_sms});
    std::thread other([&] { EXPECT_TRUE(executors[1]->Run().ok()); });
    EXPECT_TRUE(executors[0]->Run().ok());
    other.join();
    return EnqueuedOps::limits;
  };
  const Layout overlapped = {.schedule = "domino_row", .slices = {2, 2}};
  EXPECT_THAT(limits(overlapped, 0), ElementsAre(0));
  EXPECT_THAT(limits(overlapped, 1), ElementsAre(0, device.multiProcessorCount - 1));
  EXPECT_THAT(limits(overlapped, 1 << 20), ElementsAre(0, 1));
}

TEST_F(CudaExecutorTest, WithoutGraphsNoneIsMade) {
  cuda_emulator::Reset();
  Train(SpecOf({}), {.steps = 2}, CudaMachine({.graphs = false}));
  EXPECT_EQ(cuda_emulator::Graphs().instantiated, 0);
}

TEST_F(CudaExecutorTest, IntervalsAreOrderedAsTheProgramIsAndTheLedgerSumsUp) {
  for (bool graphs : {false, true}) {
    Job job(SpecOf({.schedule = "domino_row", .slices = {2, 2}, .micro_batches = 3}), {},
            CudaMachine({graphs, 3}));
    ASSERT_TRUE(job.Run(2).ok());
    const int64_t before = NowNanoseconds();
    ASSERT_TRUE(job.Run(1).ok());
    const Interval step{before, NowNanoseconds()};
    const Program& program = job.rank(0).plan().program;
    const auto intervals = job.rank(0).executor().intervals();
    ASSERT_EQ(intervals.size(), program.ops.size());
    for (size_t i = 0; i < intervals.size(); ++i) {
      EXPECT_LE(step.begin, intervals[i].begin);
      EXPECT_LE(intervals[i].begin, intervals[i].end);
      EXPECT_LE(intervals[i].end, step.end);
      for (OpId wait : program.ops[OpId::Of(i)].waits)
        EXPECT_GE(intervals[i].begin, intervals[wait.position()].end);
    }
    const StepLedger ledger = ComputeLedger(program, intervals, {}, step);
    EXPECT_NEAR(ledger.seconds, static_cast<double>(step.end - step.begin) * 1e-9, 1e-9);
    EXPECT_GT(ledger.communication_seconds, 0);
  }
}

TEST_F(CudaExecutorTest, OnBeginIsToldHowFarTheLanesHaveCome) {
  const std::vector<RankPlan> plans = *BuildPlans(SpecOf({.tp_size = 1}));
  std::vector<CudaRank> ranks = RanksOf(plans);
  std::vector<OpId> told;
  ranks[0].on_begin = [&](OpId op, int64_t now) {
    EXPECT_GT(now, 0);
    told.push_back(op);
  };
  cuda_emulator::Seed(5);
  auto executors = *MakeCudaExecutors(std::move(ranks), {.make_ops = MakeEnqueuedOps});
  ASSERT_TRUE(executors[0]->Run().ok());
  EXPECT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));  // there is one lane
}

TEST_F(CudaExecutorTest, SaysWhichArenaDidNotFit) {
  const std::vector<RankPlan> plans = *BuildPlans(SpecOf({.tp_size = 1}));
  const ArenaBytes& arenas = plans[0].arenas;
  const int64_t gradients = arenas[ArenaClass::kGradient];
  const int64_t parameters = arenas[ArenaClass::kParameter];
  cuda_emulator::SetMemory(static_cast<size_t>(parameters + gradients - 1));
  const absl::Status status =
      MakeCudaExecutors(RanksOf(plans), {.make_ops = MakeEnqueuedOps}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot allocate the gradient arena of "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorMemoryAllocation"));
}

TEST_F(CudaExecutorTest, ALaunchThatFailsNamesTheOperationAndEndsAllRanks) {
  Job job(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), {}, CudaMachine({}));
  cuda_emulator::FailLaunchAfter(90);
  const absl::Status status = job.Run(1);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr(" fwd mb0 s"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorLaunchFailure"));
  cuda_emulator::FailLaunchAfter(-1);
  EXPECT_EQ(job.rank(0).executor().Run(), status);
}

TEST_F(CudaExecutorTest, ABrokenDeviceEndsTheStepAndNamesWhereItWas) {
  for (bool graphs : {false, true}) {
    {
      Job job(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), {}, CudaMachine({graphs, 7}));
      ASSERT_TRUE(job.Run(2).ok());
      cuda_emulator::BreakAfter(300);
      const absl::Status status = job.Run(1);
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()), HasSubstr("first operation not seen done: "));
      EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
    }
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }
}

TEST_F(CudaExecutorTest, CancelEndsRanksThatWaitForTheOthers) {
  Job job(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), {}, CudaMachine({}));
  std::thread leaver([&] { job.rank(1).executor().Cancel(); });
  const absl::Status status = job.rank(0).Run(0, 1);
  leaver.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
}

TEST_F(CudaExecutorTest, RefusesProgramsThatDiffer) {
  std::vector<RankPlan> plans = *BuildPlans(SpecOf({}));
  plans[1] = *BuildPlan(SpecOf({.schedule = "domino_row", .slices = {2, 2}}), 1);
  const absl::Status status =
      MakeCudaExecutors(RanksOf(plans), {.make_ops = MakeEnqueuedOps}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("of the device: found "));
}

}  // namespace
}  // namespace stretto::parity
