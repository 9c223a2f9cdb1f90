// SPDX-License-Identifier: Apache-2.0

// The CUDA executor with a ledger check, on an emulated device and a CUPTI that saw what the test
// says.
#include "worker/engine/exec/backend_cuda/ledger_check.h"

#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/parity/enqueued_ops.h"
#include "tests/parity/harness.h"
#include "tests/worker/engine/exec/backend_cuda/fake_cupti/fake_cupti.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"

namespace stretto::parity {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<StreamOps> MakeEnqueuedOps(void* stream) {
  return StreamOps{
      .workspace = nullptr, .products = nullptr, .ops = std::make_unique<EnqueuedOps>(stream)};
}

class LedgerCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fake_cupti::state() = {};
    fake_cupti::state().at_flush = [this] { SeeWhatTheLedgerSays(); };
  }
  void TearDown() override {
    fake_cupti::state() = {};
    EXPECT_EQ(cuda_emulator::Leaks(), 0);
    cuda_emulator::Reset();
  }

  // Two ranks on one device. What they compute is not looked at.
  std::unique_ptr<Job> MakeJob() {
    Layout layout{.schedule = "domino_row", .slices = {2, 2}, .micro_batches = 3};
    return std::make_unique<Job>(
        SpecOf(layout), Options{}, [this](const std::vector<RankPlan>& plans, const Options&) {
          plans_ = plans;
          std::vector<CudaRank> ranks;
          for (const RankPlan& plan : plans)
            ranks.push_back({plan.step, plan.program, plan.arenas, {}, {}});
          auto executors = MakeCudaExecutors(std::move(ranks),
                                             {.make_ops = MakeEnqueuedOps, .cupti = FAKE_CUPTI});
          EXPECT_TRUE(executors.ok()) << executors.status();
          Machine machine;
          machine.executors = *std::move(executors);
          for (const auto& executor : machine.executors) executors_.push_back(executor.get());
          return machine;
        });
  }

  // Streams are numbered by lane, from 7 on.
  void SeeWhatTheLedgerSays() {
    for (size_t rank = 0; rank < plans_.size(); ++rank) {
      for (OpId op : plans_[rank].program.ops.ids()) {
        const Interval at = executors_[rank]->intervals()[op.position()];
        fake_cupti::state().records.push_back(
            {.stream = static_cast<uint32_t>(7 + plans_[rank].program.ops[op].lane.value()),
             .name = "kernel",
             .start = static_cast<uint64_t>(at.begin),
             .end = static_cast<uint64_t>(at.end)});
      }
    }
  }

  std::vector<RankPlan> plans_;
  std::vector<Executor*> executors_;
};

TEST_F(LedgerCheckTest, StepsWhoseLedgerIsWhatCuptiSawGoOn) {
  const auto job = MakeJob();
  int flushes = 0;
  fake_cupti::state().at_flush = [&] {
    ++flushes;
    SeeWhatTheLedgerSays();
  };
  EXPECT_EQ(job->Run(3), absl::OkStatus());
  EXPECT_EQ(flushes, 2) << "the first step is not compared";
  EXPECT_EQ(cuda_emulator::Graphs().launched, 0) << "a graph's kernels have no lane";
}

TEST_F(LedgerCheckTest, AKernelThatTheLedgerMissedFailsTheStep) {
  const auto job = MakeJob();
  fake_cupti::state().at_flush = [&] {
    SeeWhatTheLedgerSays();
    const auto begin = static_cast<uint64_t>(executors_[0]->intervals()[0].begin);
    fake_cupti::state().records.push_back({.stream = 8,  // comm.tp
                                           .name = "missed",
                                           .start = begin - 1'000'000'000,
                                           .end = begin - 900'000'000});
  };
  const absl::Status status = job->Run(2);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), StartsWith("ledger against CUPTI's "));
  EXPECT_THAT(status.message(), HasSubstr("most unseen missed, DISAGREES"));
  EXPECT_EQ(job->Run(1), status) << "the executor is dead";
}

TEST_F(LedgerCheckTest, StepsWithoutEvidenceFail) {
  const auto job = MakeJob();
  fake_cupti::state().at_flush = [] { fake_cupti::state().dropped = 1; };
  EXPECT_EQ(job->Run(2).code(), absl::StatusCode::kDataLoss);
}

TEST_F(LedgerCheckTest, LanesThatComputeAreToldFromThoseThatCommunicate) {
  // Comm's kernel waits, compute's is missing.
  std::vector<std::string> said;
  auto check =
      cuda::LedgerCheck::Create(FAKE_CUPTI, {{"compute", nullptr, false}, {"comm.tp", &said, true}},
                                [&](const std::string& line) { said.push_back(line); });
  ASSERT_TRUE(check.ok()) << check.status();
  Interval step, late;
  const auto end_with = [&](Interval compute, Interval comm) {
    const auto record = [](uint32_t stream, Interval at) {
      return fake_cupti::Record{.stream = stream,
                                .name = "kernel",
                                .start = static_cast<uint64_t>(at.begin),
                                .end = static_cast<uint64_t>(at.end)};
    };
    fake_cupti::state().at_flush = [=] {
      fake_cupti::state().records = {record(7, compute), record(8, comm)};
    };
    return (*check)->End({{step}, {step}});
  };
  // Long enough for what is missing to be no tolerance.
  const auto begin = [&] {
    ASSERT_TRUE((*check)->Begin().ok());
    step.begin = NowNanoseconds();
    while (NowNanoseconds() < step.begin + 1'000'000) {
    }
    step.end = NowNanoseconds();
    late = {step.begin + 900'000, step.end};
  };

  begin();
  EXPECT_EQ(end_with(step, late), absl::OkStatus());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], StartsWith("ledger against CUPTI's 2 activities: shift "));

  begin();
  const absl::Status status = end_with(late, step);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(std::string(status.message()), said[1]);
  EXPECT_THAT(said[1], ::testing::ContainsRegex("compute: .* DISAGREES; comm.tp: "));
}

TEST_F(LedgerCheckTest, TheBackendTakesItFromTheEnvironment) {
  const auto plans = BuildPlans(SpecOf({.schedule = "megatron_sync", .tp_size = 1}));
  ASSERT_TRUE(plans.ok()) << plans.status();
  const RankPlan& plan = (*plans)[0];
  const auto make = [&](const char* library) {
    ::setenv("STRETTO_CUPTI", library, 1);
    const auto backend = MakeCudaBackend({.make_ops = MakeEnqueuedOps});
    ::unsetenv("STRETTO_CUPTI");
    EXPECT_TRUE(backend.ok()) << backend.status();
    return (*backend)
        ->MakeExecutor(
            {.step = plan.step, .program = plan.program, .arenas = plan.arenas, .links = {{}}})
        .status();
  };
  EXPECT_EQ(make("/no/libcupti.so").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(make(FAKE_CUPTI), absl::OkStatus());
  EXPECT_EQ(make(""), absl::OkStatus());
}

}  // namespace
}  // namespace stretto::parity
