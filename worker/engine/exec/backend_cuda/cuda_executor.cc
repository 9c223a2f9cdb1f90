// SPDX-License-Identifier: Apache-2.0

// The ranks of a device take one step together: their threads meet, the last one runs the step of
// all of them, and each gets its result.

#include "worker/engine/exec/backend_cuda/cuda_executor.h"

#include <utility>

#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cuda/device_step.h"

namespace stretto {
namespace cuda {
namespace {

// The rendezvous of the ranks' threads for a step.
class Meeting {
 public:
  Meeting(std::unique_ptr<DeviceStep> step, size_t ranks) : step_(std::move(step)), ranks_(ranks) {}
  // Leaks the step if the device may still write its memory.
  ~Meeting() {
    if (!step_->at_rest()) (void)step_.release();
  }

  absl::Status Run() {
    const MutexLock lock(mu_);
    if (!status_.ok()) return status_;
    if (cancelled_) return Cancelled();
    const uint64_t round = rounds_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      status_ = step_->Run();
      ++rounds_;
      changed_.NotifyAll();
      return status_;
    }
    changed_.Wait(mu_, [&]() REQUIRES(mu_) { return rounds_ != round || cancelled_; });
    // No thread starts the next round before all have called Run again, so status_ is this round's.
    return rounds_ != round ? status_ : Cancelled();
  }

  void Cancel() {
    step_->Cancel();
    const MutexLock lock(mu_);
    cancelled_ = true;
    changed_.NotifyAll();
  }

  absl::StatusOr<TensorView> Read(LocalRank rank, BufferId buffer) {
    const MutexLock lock(mu_);
    RETURN_IF_ERROR(step_->UseDevice());
    return step_->memory(rank).Read(buffer);
  }
  absl::Status Write(LocalRank rank, BufferId buffer, const TensorView& staged) {
    const MutexLock lock(mu_);
    RETURN_IF_ERROR(step_->UseDevice());
    return step_->memory(rank).Write(buffer, staged);
  }
  absl::Status Clear(LocalRank rank, BufferId buffer) {
    const MutexLock lock(mu_);
    RETURN_IF_ERROR(step_->UseDevice());
    return step_->memory(rank).Clear(buffer);
  }
  DeviceStep& step() { return *step_; }

 private:
  static absl::Status Cancelled() { return absl::AbortedError("the step was cancelled"); }

  std::unique_ptr<DeviceStep> step_;
  const size_t ranks_;
  Mutex mu_;
  CondVar changed_;
  size_t arrived_ GUARDED_BY(mu_) = 0;
  uint64_t rounds_ GUARDED_BY(mu_) = 0;
  absl::Status status_ GUARDED_BY(mu_);
  bool cancelled_ GUARDED_BY(mu_) = false;
};

class CudaExecutor final : public Executor {
 public:
  // The meeting is shared because the executors of the ranks are destroyed in any order.
  CudaExecutor(std::shared_ptr<Meeting> meeting, LocalRank rank)
      : meeting_(std::move(meeting)), rank_(rank) {}

  absl::Status Run() override { return meeting_->Run(); }
  TensorView HostView(BufferId buffer) override {
    return meeting_->step().memory(rank_).HostView(buffer);
  }
  absl::StatusOr<TensorView> Read(BufferId buffer) override {
    return meeting_->Read(rank_, buffer);
  }
  absl::Status Write(BufferId buffer, Fill fill) override {
    const TensorView staged = meeting_->step().memory(rank_).Stage(buffer);
    RETURN_IF_ERROR(fill(staged));
    return meeting_->Write(rank_, buffer, staged);
  }
  absl::Status Clear(BufferId buffer) override { return meeting_->Clear(rank_, buffer); }
  Arena Lend(ArenaClass arena) const override { return meeting_->step().memory(rank_).Lend(arena); }
  absl::Span<const Interval> intervals() const override {
    return meeting_->step().intervals(rank_);
  }
  double communication_cpu_seconds() const override { return 0; }
  void Cancel() override { meeting_->Cancel(); }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const LocalRank rank_;
};

}  // namespace
}  // namespace cuda

absl::StatusOr<std::vector<std::unique_ptr<Executor>>> MakeCudaExecutors(
    IdVector<LocalRank, CudaRank> ranks, CudaExecutorOptions options) {
  const size_t count = ranks.size();
  auto step = std::make_unique<cuda::DeviceStep>(std::move(ranks), std::move(options));
  RETURN_IF_ERROR(step->Prepare());
  const auto meeting = std::make_shared<cuda::Meeting>(std::move(step), count);
  std::vector<std::unique_ptr<Executor>> executors;
  for (LocalRank rank : IdRange<LocalRank>(count))
    executors.push_back(std::make_unique<cuda::CudaExecutor>(meeting, rank));
  return executors;
}

}  // namespace stretto
