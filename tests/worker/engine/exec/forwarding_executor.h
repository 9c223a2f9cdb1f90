// SPDX-License-Identifier: Apache-2.0
#pragma once
// An executor that forwards every call, for decorators that change one of them.

#include <memory>
#include <utility>

#include "worker/engine/exec/executor.h"

namespace stretto {

class ForwardingExecutor : public Executor {
 public:
  explicit ForwardingExecutor(std::unique_ptr<Executor> inner) : inner_(std::move(inner)) {}

  absl::Status Run() override { return inner_->Run(); }
  TensorView HostView(BufferId buffer) override { return inner_->HostView(buffer); }
  absl::StatusOr<TensorView> Read(BufferId buffer) override { return inner_->Read(buffer); }
  absl::Status Write(BufferId buffer, Fill fill) override { return inner_->Write(buffer, fill); }
  absl::Status Clear(BufferId buffer) override { return inner_->Clear(buffer); }
  Arena Lend(ArenaClass arena) const override { return inner_->Lend(arena); }
  absl::Span<const Interval> intervals() const override { return inner_->intervals(); }
  double communication_cpu_seconds() const override { return inner_->communication_cpu_seconds(); }
  void Cancel() override { inner_->Cancel(); }

 private:
  const std::unique_ptr<Executor> inner_;
};

}  // namespace stretto
