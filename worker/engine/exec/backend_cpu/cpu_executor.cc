// SPDX-License-Identifier: Apache-2.0

// Runs a program on CPU threads, one per lane; the first lane runs on the caller's thread.
// Operations are bound to their operands once. In a step each lane runs its operations in order and
// counts them in an atomic number (`done`). A wait means "at least N operations of that lane are
// done" and blocks on this number, so no mutex is held across an operation. A thread that wakes
// another one on its core can lose the core to it for a tick of the kernel. Therefore a lane whose
// next operation is a collective posts what it sends before it wakes the lanes that wait for it
// (docs/design/0093-posted-before-others-wake.md). The lanes' threads wait for the next value of
// `generation_`, which starts a step. The first failure aborts all communicators, which ends the
// calls of the other lanes; the lanes then only count their remaining operations, so that no lane
// waits forever.

#include "worker/engine/exec/backend_cpu/cpu_executor.h"

#include <pthread.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/comm/communicator.h"
#include "worker/engine/exec/arena_view.h"
#include "worker/engine/exec/backend_cpu/bind_collective.h"
#include "worker/engine/exec/bind.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/program/collective_op.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

double ThreadCpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// A wait of an operation: `done` operations of another lane must be done.
struct LaneWait {
  LaneId lane;
  uint32_t done;
};

struct BoundOp {
  std::function<void()> compute;           // empty for a collective
  CollectiveCall communicate;              // empty for compute
  std::unique_ptr<const Collective> call;  // what it makes; null for compute
  const Collective* next = nullptr;        // of the same group, after it in this lane
  OpId index;                              // in the program
  std::vector<LaneWait> waits;
};

struct LaneState {
  std::vector<BoundOp> ops;
  WireBuffers wire;
  bool communicates = false;
  // The number of operations done in this step. Written by the lane's thread; others wait on it. On
  // a cache line of its own, so that lanes do not share one.
  alignas(64) std::atomic<uint32_t> done{0};
  bool unannounced = false;  // nobody was woken since `done` changed; of the lane's thread
  double cpu_seconds = 0;    // of the last step; read after the step
  std::thread thread;        // none for the first lane
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(Program program, Ops* ops, CpuExecutorOptions options)
      : program_(std::move(program)),
        ops_(ops),
        options_(std::move(options)),
        intervals_(program_.ops.size()),
        lanes_(program_.lanes.size()) {}

  ~CpuExecutor() override {
    stop_.store(true);
    generation_.fetch_add(1);
    generation_.notify_all();
    for (LaneState& lane : lanes_) {
      if (lane.thread.joinable()) lane.thread.join();
    }
  }

  absl::Status Allocate(const ArenaBytes& bytes) {
    RETURN_IF_ERROR(CheckBorrowed(options_.borrowed, bytes));
    for (size_t i = 0; i < arenas_.size(); ++i) {
      arenas_[i] = options_.borrowed[i];
      if (arenas_[i].memory != nullptr) continue;
      const size_t size = std::max<int64_t>(bytes[i], kArenaAlignment);
      arenas_[i] = {std::shared_ptr<void>(std::aligned_alloc(kArenaAlignment, size), std::free),
                    bytes[i]};
      if (arenas_[i].memory == nullptr) {
        return absl::ResourceExhaustedError(absl::StrCat("cannot allocate the ",
                                                         NameOf(static_cast<ArenaClass>(i)),
                                                         " arena of ", FormatBytes(bytes[i])));
      }
      std::memset(arenas_[i].memory.get(), 0, size);
    }
    return absl::OkStatus();
  }

  absl::Status Bind() {
    for (GroupId id : program_.groups.ids()) {
      const Group& group = program_.groups[id];
      Communicator* communicator = CommunicatorOf(id);
      const size_t size = group.ranks.size();
      if (size == 1 || (communicator != nullptr && std::cmp_equal(communicator->size(), size))) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "group ", group.name, ": found ",
          communicator ? absl::StrCat("a communicator of ", communicator->size()) : "none",
          ", expected one of ", size, " ranks"));
    }
    IdVector<OpId, uint32_t> position;
    for (OpId op : program_.ops.ids()) {
      LaneState& lane = lanes_[program_.ops[op].lane];
      position.push_back(static_cast<uint32_t>(lane.ops.size()));
      lane.ops.push_back(BindOne(op));
    }
    for (LaneState& lane : lanes_) {
      for (BoundOp& op : lane.ops) {
        for (OpId wait : program_.ops[op.index].waits)
          op.waits.push_back({program_.ops[wait].lane, position[wait] + 1});
      }
      IdVector<GroupId, const Collective*> next(program_.groups.size());
      for (BoundOp& op : std::views::reverse(lane.ops)) {
        if (op.call == nullptr) continue;
        op.next = std::exchange(next[program_.ops[op.index].group], op.call.get());
      }
    }
    return absl::OkStatus();
  }

  void StartLanes() {
    for (LaneId i = 1; i < lanes_.next(); ++i) {
      lanes_[i].thread = std::thread([this, i] { ServeLane(i); });
      pthread_setname_np(lanes_[i].thread.native_handle(),
                         program_.lanes[i].name.substr(0, 15).c_str());
    }
  }

  absl::Status Run() override {
    if (failed_.load()) return error();
    ops_->WeightsChanged();
    // Relaxed is enough: the release of generation_ publishes the zeros.
    for (LaneState& lane : lanes_) lane.done.store(0, std::memory_order_relaxed);
    acknowledged_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    RunLane(0);
    // A lane notes its CPU time after the last operation that it counts in `done`. Only its
    // acknowledgement means that it has finished with the step.
    uint32_t seen;
    while ((seen = acknowledged_.load(std::memory_order_acquire)) != lanes_.size() - 1) {
      acknowledged_.wait(seen);
    }
    return failed_.load() ? error() : absl::OkStatus();
  }

  TensorView HostView(BufferId buffer) override {
    STRETTO_CHECK(IsHostVisible(program_.buffers, buffer));
    return View(buffer);
  }
  absl::StatusOr<TensorView> Read(BufferId buffer) override { return View(buffer); }
  absl::Status Write(BufferId buffer, Fill fill) override { return fill(View(buffer)); }

  Arena Lend(ArenaClass arena) const override {
    STRETTO_CHECK(arena != ArenaClass::kInput && arena != ArenaClass::kOutput);
    return arenas_[arena];
  }

  absl::Span<const Interval> intervals() const override { return intervals_; }

  double communication_cpu_seconds() const override {
    double seconds = 0;
    for (const LaneState& lane : lanes_) seconds += lane.communicates ? lane.cpu_seconds : 0;
    return seconds;
  }

  void Cancel() override {
    for (Communicator* communicator : options_.communicators) {
      if (communicator != nullptr) communicator->Abort();
    }
  }

 private:
  TensorView View(BufferId buffer) const {
    ArenaBases bases;
    for (size_t i = 0; i < bases.size(); ++i) bases[i] = arenas_[i].memory.get();
    return ViewOf(program_.buffers, buffer, bases);
  }

  Communicator* CommunicatorOf(GroupId group) const {
    const size_t position = group.position();
    return position < options_.communicators.size() ? options_.communicators[position] : nullptr;
  }

  BoundOp BindOne(OpId index) {
    const Op& op = program_.ops[index];
    BoundOp bound;
    bound.index = index;
    if (IsCollective(op.kind)) {
      lanes_[op.lane].communicates = true;
      bound.communicate = BindCollective(op, View(BroughtBy(op)), View(ReceivedBy(op)),
                                         CommunicatorOf(op.group), &lanes_[op.lane].wire);
      bound.call =
          std::make_unique<Collective>(WireCallOf(op, View(BroughtBy(op)), View(ReceivedBy(op))));
      return bound;
    }
    std::vector<TensorView> in, out;
    for (BufferId id : op.in) in.push_back(View(id));
    for (BufferId id : op.out) out.push_back(View(id));
    bound.compute = BindCompute(op, std::move(in), std::move(out), ops_);
    return bound;
  }

  void ServeLane(LaneId lane) {
    uint32_t seen = 0;
    while (true) {
      generation_.wait(seen, std::memory_order_acquire);
      seen = generation_.load(std::memory_order_acquire);
      if (stop_.load()) return;
      RunLane(lane);
      acknowledged_.fetch_add(1, std::memory_order_release);
      acknowledged_.notify_all();
    }
  }

  // Wakes the lanes that wait for what `lane` has done.
  static void Announce(LaneState* lane) {
    if (std::exchange(lane->unannounced, false)) lane->done.notify_all();
  }

  void Await(const LaneWait& wait, LaneState* waiting) {
    std::atomic<uint32_t>& done = lanes_[wait.lane].done;
    uint32_t now;
    while ((now = done.load(std::memory_order_acquire)) < wait.done) {
      Announce(waiting);
      done.wait(now, std::memory_order_acquire);
    }
  }

  // After a failure the remaining operations are skipped but still counted, so that nobody waits
  // forever.
  void RunLane(LaneId index) {
    LaneState& lane = lanes_[index];
    const double cpu_start = ThreadCpuSeconds();
    for (const BoundOp& op : lane.ops) {
      for (const LaneWait& wait : op.waits) Await(wait, &lane);
      if (op.compute) Announce(&lane);
      if (!failed_.load(std::memory_order_acquire)) {
        Interval& interval = intervals_[op.index.position()];
        interval.begin = NowNanoseconds();
        if (options_.on_begin) options_.on_begin(op.index, interval.begin);
        if (op.compute) {
          op.compute();
        } else {
          absl::Status status = op.communicate(op.next, [&lane] { Announce(&lane); });
          if (!status.ok()) Fail(op.index, status);
        }
        interval.end = NowNanoseconds();
      }
      lane.done.fetch_add(1, std::memory_order_release);
      lane.unannounced = true;
    }
    Announce(&lane);
    lane.cpu_seconds = ThreadCpuSeconds() - cpu_start;
  }

  void Fail(OpId index, const absl::Status& status) {
    {
      const MutexLock lock(mu_);
      if (!error_.ok()) return;
      error_ = absl::Status(status.code(), absl::StrCat(PrintOp(program_, index), ": ",
                                                        std::string(status.message())));
      failed_.store(true, std::memory_order_release);
    }
    Cancel();
  }

  absl::Status error() {
    const MutexLock lock(mu_);
    return error_;
  }

  const Program program_;
  Ops* const ops_;
  const CpuExecutorOptions options_;
  PerArena<Arena> arenas_;
  std::vector<Interval> intervals_;
  IdVector<LaneId, LaneState> lanes_;
  std::atomic<uint32_t> generation_{0};    // steps started
  std::atomic<uint32_t> acknowledged_{0};  // lanes that have finished with this step
  std::atomic<bool> stop_{false}, failed_{false};
  Mutex mu_;
  absl::Status error_ GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> MakeCpuExecutor(Program program, const ArenaBytes& arenas,
                                                          Ops* ops, CpuExecutorOptions options) {
  auto executor = std::make_unique<CpuExecutor>(std::move(program), ops, std::move(options));
  RETURN_IF_ERROR(executor->Allocate(arenas));
  RETURN_IF_ERROR(executor->Bind());
  executor->StartLanes();
  return executor;
}

}  // namespace stretto
