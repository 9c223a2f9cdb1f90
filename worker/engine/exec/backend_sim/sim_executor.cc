// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_sim/sim_executor.h"

#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/exec/ledger.h"

namespace stretto {
namespace {

class SimExecutor final : public Executor {
 public:
  // `first`: the intervals of a step that starts at 0.
  SimExecutor(std::vector<Interval> first, double communication_cpu_seconds)
      : first_(std::move(first)),
        step_(SpanOf(first_).end),
        communication_cpu_seconds_(communication_cpu_seconds),
        intervals_(first_.size()) {}

  absl::Status Run() override {
    for (size_t i = 0; i < first_.size(); ++i) {
      intervals_[i] = {now_ + first_[i].begin, now_ + first_[i].end};
    }
    now_ += step_;
    return absl::OkStatus();
  }
  TensorView HostView(BufferId) override {
    STRETTO_CHECK(false && "a simulated program has no memory");
    return {};
  }
  absl::StatusOr<TensorView> Read(BufferId) override { return NoMemory(); }
  absl::Status Write(BufferId, Fill) override { return NoMemory(); }
  absl::Span<const Interval> intervals() const override { return intervals_; }
  double communication_cpu_seconds() const override { return communication_cpu_seconds_; }
  void Cancel() override {}

 private:
  static absl::Status NoMemory() {
    return absl::UnimplementedError("a simulated program has no memory");
  }

  const std::vector<Interval> first_;
  const int64_t step_;
  const double communication_cpu_seconds_;
  int64_t now_ = 0;
  std::vector<Interval> intervals_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> MakeSimExecutor(const Program& program,
                                                          const CostModel& cost) {
  RETURN_IF_ERROR(Validate(cost));
  ASSIGN_OR_RETURN(std::vector<Interval> intervals, Simulate(program, cost));
  const StepLedger ledger = ComputeLedger(program, intervals, {}, SpanOf(intervals));
  const double burnt = cost.contention.compute * ledger.communication_seconds;
  return std::make_unique<SimExecutor>(std::move(intervals), burnt);
}

}  // namespace stretto
