// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/executor.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parity/harness.h"
#include "tests/parity/specs.h"
#include "worker/engine/exec/ledger.h"
#include "worker/engine/program/text.h"

namespace stretto::parity {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// One rank's view of a group whose peers are not there: calls succeed at once, except the given
// one.
class LonelyCommunicator final : public Communicator {
 public:
  enum class At { kNever, kFail, kBlock };
  LonelyCommunicator(int size, At at, int call) : size_(size), at_(at), call_(call) {}

  int rank() const override { return 0; }
  int size() const override { return size_; }
  absl::Status Run(const Collective& collective) override {
    if (collective.kind != CollectiveKind::kAllReduce) {
      return absl::UnimplementedError(NameOf(collective.kind));
    }
    std::unique_lock lock(mu_);
    if (calls_++ != call_ || at_ == At::kNever) return absl::OkStatus();
    if (at_ == At::kFail) return absl::UnavailableError("all_reduce: rank 1 is gone");
    blocked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return aborted_; });
    return absl::AbortedError("all_reduce: aborted");
  }
  void Abort() override {
    std::lock_guard lock(mu_);
    aborted_ = true;
    changed_.notify_all();
  }
  void AwaitBlocked() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return blocked_; });
  }
  int calls() {
    std::lock_guard lock(mu_);
    return calls_;
  }

 private:
  const int size_;
  const At at_;
  const int call_;
  std::mutex mu_;
  std::condition_variable changed_;
  int calls_ = 0;
  bool blocked_ = false, aborted_ = false;
};

using At = LonelyCommunicator::At;

struct Fixture {
  explicit Fixture(const Layout& layout, At at = At::kNever, int call = -1)
      : communicator(layout.tp_size, at, call) {
    plan = *BuildPlan(SpecOf(layout), 0);
    CpuExecutorOptions options;
    options.communicators = {&communicator};
    executor = *MakeCpuExecutor(plan.program, plan.arenas, ops.get(), std::move(options));
  }
  std::unique_ptr<Ops> ops = MakeCpuOps();
  LonelyCommunicator communicator;
  RankPlan plan;
  std::unique_ptr<Executor> executor;
};

TEST(ExecutorTest, AnErrorOfTheCommunicatorNamesTheOperationAndEndsEveryLane) {
  // Calls 0 and 1 are the embeddings of the slices, 2 the attention of slice 0.
  Fixture fixture(kDomino, At::kFail, 2);
  const absl::Status status = fixture.executor->Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("comm.tp all_reduce L0.proj fwd mb0 s0 in="));
  EXPECT_THAT(std::string(status.message()), HasSubstr(": all_reduce: rank 1 is gone"));
  EXPECT_EQ(fixture.communicator.calls(), 3);
}

TEST(ExecutorTest, IsDeadAfterAnError) {
  Fixture fixture(kDomino, At::kFail, 0);
  const absl::Status first = fixture.executor->Run();
  EXPECT_EQ(fixture.executor->Run(), first);
  EXPECT_EQ(fixture.communicator.calls(), 1);
}

TEST(ExecutorTest, OnOneLaneAnErrorEndsTheRunToo) {
  Fixture fixture({.schedule = "megatron_sync", .tp_size = 2, .slices = {4}}, At::kFail, 5);
  EXPECT_EQ(fixture.executor->Run().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(fixture.communicator.calls(), 6);
}

// Two groups, each on its lane. The peers of the first never come.
TEST(ExecutorTest, AnErrorOfOneGroupEndsACallOfAnother) {
  Program program = *Parse(
      "program rank=0 world=2\ngroup tp 0,1\ngroup dp 0,1\n"
      "lane compute\nlane comm.tp\nlane comm.dp\n"
      "buffer %0 x f32 4 input @0\nbuffer %1 y f32 4 input @64\n"
      "0 comm.tp all_reduce x fwd in=%0 out=%0 on=tp\n"
      "1 comm.dp all_reduce y fwd in=%1 out=%1 on=dp\n");
  LonelyCommunicator tp(2, At::kBlock, 0), dp(2, At::kFail, 0);
  CpuExecutorOptions options;
  options.communicators = {&tp, &dp};
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  ArenaBytes arenas = {};
  arenas[ArenaClass::kInput] = 128;
  const auto executor = *MakeCpuExecutor(std::move(program), arenas, ops.get(), std::move(options));
  const absl::Status status = executor->Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 comm.dp all_reduce y fwd"));
}

TEST(ExecutorTest, CancelEndsABlockedRun) {
  Fixture fixture(kDomino, At::kBlock, 4);
  absl::Status status;
  std::thread runner([&] { status = fixture.executor->Run(); });
  fixture.communicator.AwaitBlocked();
  fixture.executor->Cancel();
  runner.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("L0.fc2 fwd mb0 s0"));
}

TEST(ExecutorTest, APeerThatFailsEndsTheOthers) {
  Job job(SpecOf(kDomino), {});
  // Rank 1 leaves before it ever calls; rank 0 waits for it.
  std::thread leaver([&] { job.rank(1).executor().Cancel(); });
  const absl::Status status = job.rank(0).Run(0, 1);
  leaver.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("all_reduce embed fwd mb0 s0"));
}

TEST(ExecutorTest, RepeatsItselfStepAfterStepAndBesideAnother) {
  const Options frozen = {.learning_rate = 0, .weight_decay = 0, .same_batch = true};
  Job first(SpecOf(kDomino), frozen), second(SpecOf(kDomino), frozen);
  ASSERT_TRUE(first.Run(3).ok());
  ASSERT_TRUE(second.Run(1).ok());
  const Result a = first.Collect(), b = second.Collect();
  for (const StepResult& step : a.steps)
    EXPECT_TRUE(SameBits(step.token_losses, b.steps[0].token_losses));
  EXPECT_TRUE(SameBits(a.gradients, b.gradients));
}

TEST(ExecutorTest, StepsInOneCallOrInSeveralAreTheSame) {
  Job together(SpecOf(kDomino), {}), apart(SpecOf(kDomino), {});
  ASSERT_TRUE(together.Run(3).ok());
  for (int step = 0; step < 3; ++step) ASSERT_TRUE(apart.Run(1).ok());
  EXPECT_TRUE(SameBits(together.Collect().weights, apart.Collect().weights));
}

TEST(ExecutorTest, EveryOperationHasAnIntervalAfterWhatItWaitedFor) {
  Job job(SpecOf(kDomino), {.steps = 2, .max_delay = absl::Microseconds(200)});
  const int64_t before = NowNanoseconds();
  ASSERT_TRUE(job.Run(2).ok());
  const int64_t after = NowNanoseconds();
  for (size_t r = 0; r < job.size(); ++r) {
    const Program& program = job.rank(r).plan().program;
    const auto intervals = job.rank(r).executor().intervals();
    ASSERT_EQ(intervals.size(), program.ops.size());
    IdVector<LaneId, int64_t> lane_end(program.lanes.size(), before);
    for (size_t i = 0; i < intervals.size(); ++i) {
      EXPECT_LE(intervals[i].begin, intervals[i].end);
      EXPECT_LE(intervals[i].end, after);
      int64_t& last = lane_end[program.ops[OpId::Of(i)].lane];
      EXPECT_GE(intervals[i].begin, last);
      last = intervals[i].end;
      for (OpId wait : program.ops[OpId::Of(i)].waits)
        EXPECT_GE(intervals[i].begin, intervals[wait.position()].end);
    }
  }
}

TEST(ExecutorTest, TheLedgerOfARealStepSumsToItsSpan) {
  for (const Layout& layout :
       {kDomino, Layout{.schedule = "megatron_sync", .tp_size = 2, .slices = {4}}}) {
    Job job(SpecOf(layout), {.max_delay = absl::Microseconds(200)});
    const int64_t before = NowNanoseconds();
    ASSERT_TRUE(job.Run(1).ok());
    const Interval step{before, NowNanoseconds()};
    const StepLedger ledger =
        ComputeLedger(job.rank(0).plan().program, job.rank(0).executor().intervals(), {}, step);
    double sum = 0;
    for (const LedgerEntry& entry : ledger.entries) sum += entry.seconds;
    EXPECT_NEAR(sum, static_cast<double>(step.end - step.begin) * 1e-9, 1e-9);
    EXPECT_GT(ledger.communication_seconds, 0);
    EXPECT_LE(ledger.hidden_seconds, ledger.communication_seconds);
    // Nothing runs under a collective of megatron_sync.
    EXPECT_TRUE(layout.schedule != "megatron_sync" || ledger.hidden_seconds == 0)
        << ledger.hidden_seconds;
  }
}

TEST(ExecutorTest, OnBeginSeesEveryOperationOnce) {
  RankPlan plan = *BuildPlan(SpecOf(kDomino), 0);
  LonelyCommunicator communicator(2, At::kNever, -1);
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  std::vector<std::atomic<int>> seen(plan.program.ops.size());
  CpuExecutorOptions options;
  options.communicators = {&communicator};
  options.on_begin = [&](OpId op, int64_t now) {
    EXPECT_GT(now, 0);
    ++seen[op.position()];
  };
  auto executor = *MakeCpuExecutor(plan.program, plan.arenas, ops.get(), std::move(options));
  ASSERT_TRUE(executor->Run().ok());
  for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
}

// A group whose first call ends when the thread that made it sleeps, and whose second call ends
// when a computation has begun.
class WaitsForComputation final : public Communicator {
 public:
  explicit WaitsForComputation(std::future<void> begun)
      : stat_(absl::StrCat("/proc/self/task/", gettid(), "/stat")), begun_(std::move(begun)) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status Run(const Collective& collective) override {
    return RunTelling(collective, nullptr, [] {});
  }
  absl::Status RunTelling(const Collective&, const Collective*,
                          absl::FunctionRef<void()> posted) override {
    if (calls_++ == 0) {
      while (!Sleeps()) std::this_thread::yield();
      return absl::OkStatus();
    }
    posted();
    const bool begun = begun_.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    return begun ? absl::OkStatus() : absl::DeadlineExceededError("nothing computes");
  }
  void Abort() override {}

 private:
  // The state follows the name, in parentheses.
  bool Sleeps() const {
    std::ifstream file(stat_);
    std::string line;
    std::getline(file, line);
    return absl::StrContains(line, ") S ");
  }

  const std::string stat_;
  const std::future<void> begun_;
  int calls_ = 0;
};

TEST(ExecutorTest, WhoWaitsIsWokenOnceTheNextCollectiveIsPosted) {
  Program program = *Parse(
      "program rank=0 world=2\ngroup tp 0,1\nlane compute\nlane comm.tp\n"
      "buffer %0 x f32 4 input @0\nbuffer %1 y f32 4 input @64\nbuffer %2 z f32 4 input @128\n"
      "0 comm.tp all_reduce x fwd in=%0 out=%0 on=tp\n"
      "1 comm.tp all_reduce y fwd in=%1 out=%1 on=tp\n"
      "2 compute zero z fwd out=%2 wait=0\n");
  std::promise<void> begun;
  WaitsForComputation communicator(begun.get_future());
  CpuExecutorOptions options;
  options.communicators = {&communicator};
  options.on_begin = [&](OpId op, int64_t) {
    if (op == 2) begun.set_value();
  };
  ArenaBytes arenas = {};
  arenas[ArenaClass::kInput] = 192;
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  const auto executor = *MakeCpuExecutor(std::move(program), arenas, ops.get(), std::move(options));
  EXPECT_EQ(executor->Run(), absl::OkStatus());
}

// Records the next call that each call announces.
class RecordsNext final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::Status Run(const Collective&) override { return absl::OkStatus(); }
  absl::Status RunTelling(const Collective&, const Collective* next,
                          absl::FunctionRef<void()>) override {
    announced.push_back(next == nullptr ? "none"
                                        : absl::StrCat(NameOf(next->kind), " ", next->in.count(),
                                                       " ", NameOf(next->in.dtype)));
    return absl::OkStatus();
  }
  void Abort() override {}

  std::vector<std::string> announced;
};

TEST(ExecutorTest, ACallAnnouncesTheNextOneOfItsGroupInTheTypeOnTheWire) {
  Program program = *Parse(
      "program rank=0 world=4\ngroup tp 0,1\ngroup dp 0,2\nlane compute\nlane comm\n"
      "buffer %0 x f32 4 input @0\nbuffer %1 y f32 8 input @64\n"
      "0 comm all_reduce x fwd in=%0 out=%0 on=tp\n"
      "1 comm all_reduce y fwd in=%1 out=%1 on=dp\n"
      "2 comm all_reduce z fwd in=%1 out=%1 on=tp wire=1\n");
  RecordsNext tp, dp;
  CpuExecutorOptions options;
  options.communicators = {&tp, &dp};
  ArenaBytes arenas = {};
  arenas[ArenaClass::kInput] = 128;
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  const auto executor = *MakeCpuExecutor(std::move(program), arenas, ops.get(), std::move(options));
  EXPECT_EQ(executor->Run(), absl::OkStatus());
  EXPECT_THAT(tp.announced, ElementsAre("all_reduce 8 bf16", "none"));
  EXPECT_THAT(dp.announced, ElementsAre("none"));
}

TEST(ExecutorTest, RefusesACommunicatorOfAnotherSizeOrNone) {
  const RankPlan plan = *BuildPlan(SpecOf(kDomino), 0);
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  LonelyCommunicator three(3, At::kNever, -1);
  CpuExecutorOptions options;
  EXPECT_EQ(MakeCpuExecutor(plan.program, plan.arenas, ops.get(), options).status(),
            absl::InvalidArgumentError("group tp: found none, expected one of 2 ranks"));
  options.communicators = {&three};
  EXPECT_EQ(
      MakeCpuExecutor(plan.program, plan.arenas, ops.get(), options).status(),
      absl::InvalidArgumentError("group tp: found a communicator of 3, expected one of 2 ranks"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they end the process instead
TEST(ExecutorTest, SaysHowMuchMemoryThereIsNot) {
  const RankPlan plan = *BuildPlan(SpecOf({.schedule = "megatron_sync", .tp_size = 1}), 0);
  const std::unique_ptr<Ops> ops = MakeCpuOps();
  ArenaBytes arenas = plan.arenas;
  arenas[ArenaClass::kActivation] = int64_t{1} << 60;
  const absl::Status status = MakeCpuExecutor(plan.program, arenas, ops.get(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("cannot allocate the activation arena of "));
}
#endif

TEST(ExecutorTest, ViewsOfSlicesLieInTheirMicroBatch) {
  Fixture fixture({.schedule = "domino_row", .tp_size = 2, .slices = {1, 3}});
  const BufferMap map(fixture.plan.step);
  const TensorView whole = fixture.executor->HostView(map.Find(fixture.plan.buffers.tokens, 0));
  const auto& buffers = fixture.plan.program.buffers;
  for (BufferId id : buffers.ids()) {
    if (buffers[id].name != "tokens.s1") continue;
    const TensorView slice = fixture.executor->HostView(id);
    EXPECT_EQ(slice.as<int32_t>(), whole.as<int32_t>() + 8);
    EXPECT_EQ(slice.count(), 24);
  }
}

}  // namespace
}  // namespace stretto::parity
