// SPDX-License-Identifier: Apache-2.0

// A device that refuses the program of an evaluation is not data that cannot be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/worker/trainer/training.h"
#include "worker/engine/exec/backend.h"

namespace stretto::trainer {
namespace {

// Refuses to run, as a library does that has no kernel for a shape.
class RefusingExecutor final : public Executor {
 public:
  explicit RefusingExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}

  absl::Status Run() override { return absl::InvalidArgumentError("no kernel for this shape"); }
  TensorView HostView(BufferId buffer) override { return inner_->HostView(buffer); }
  absl::StatusOr<TensorView> Read(BufferId buffer) override { return inner_->Read(buffer); }
  absl::Status Write(BufferId buffer, Fill fill) override { return inner_->Write(buffer, fill); }
  Arena Lend(ArenaClass arena) const override { return inner_->Lend(arena); }
  absl::Span<const Interval> intervals() const override { return inner_->intervals(); }
  double communication_cpu_seconds() const override { return 0; }
  void Cancel() override { inner_->Cancel(); }

 private:
  const std::unique_ptr<Executor> inner_;
};

// The second executor, which is the evaluation's, refuses.
class RefusingBackend final : public Backend {
 public:
  explicit RefusingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string Describe() const override { return inner_->Describe(); }
  absl::StatusOr<int64_t> FreeMemory() const override { return inner_->FreeMemory(); }
  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) override {
    ASSIGN_OR_RETURN(auto executor, inner_->MakeExecutor(std::move(request)));
    if (made_++ == 0) return executor;
    return std::make_unique<RefusingExecutor>(std::move(executor));
  }

 private:
  const std::unique_ptr<Backend> inner_;
  int made_ = 0;
};

class RefusedEvaluationTest : public TrainingTest {};

TEST_F(RefusedEvaluationTest, IsAFailureOfTheDevice) {
  Evaluate();
  backend_ = std::make_unique<RefusingBackend>(std::move(backend_));
  const TrainResult result = Run();
  EXPECT_EQ(result.reason, ExitReason::kDeviceFailed);
  EXPECT_EQ(result.state.step, 2);
  EXPECT_THAT(result.status.ToString(), testing::HasSubstr("no kernel for this shape"));
}

}  // namespace
}  // namespace stretto::trainer
