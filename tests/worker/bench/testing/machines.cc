// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/bench/testing/machines.h"

#include <cuda_runtime.h>

#include <limits>
#include <utility>

#include "proto/base/status_macros.h"
#include "tests/parity/enqueued_ops.h"
#include "worker/comm/emulated_link/emulated_link.h"
#include "worker/engine/exec/backend_cuda/cuda_backend.h"

namespace stretto::bench {
namespace {

class BrokenExecutor final : public Executor {
 public:
  BrokenExecutor(std::unique_ptr<Executor> inner, const Program& program, int* good_runs)
      : inner_(std::move(inner)), good_runs_(good_runs) {
    for (BufferId id : program.buffers.ids()) {
      const Buffer& buffer = program.buffers[id];
      if (buffer.arena == ArenaClass::kOutput && buffer.dtype == DType::kF32) {
        outputs_.push_back(id);
      }
    }
  }

  absl::Status Run() override {
    RETURN_IF_ERROR(inner_->Run());
    if (--*good_runs_ >= 0) return absl::OkStatus();
    for (BufferId output : outputs_) Break(inner_->HostView(output));
    return absl::OkStatus();
  }
  TensorView HostView(BufferId buffer) override { return inner_->HostView(buffer); }
  absl::StatusOr<TensorView> Read(BufferId buffer) override {
    ASSIGN_OR_RETURN(const TensorView view, inner_->Read(buffer));
    if (*good_runs_ < 0) Break(view);
    return view;
  }
  absl::Status Write(BufferId buffer, Fill fill) override { return inner_->Write(buffer, fill); }
  absl::Span<const Interval> intervals() const override { return inner_->intervals(); }
  double communication_cpu_seconds() const override { return 0; }
  void Cancel() override { inner_->Cancel(); }

 private:
  static void Break(TensorView view) {
    if (view.dtype == DType::kF32 && view.count() > 0) {
      view.as<float>()[0] = std::numeric_limits<float>::infinity();
    }
  }
  const std::unique_ptr<Executor> inner_;
  int* const good_runs_;
  std::vector<BufferId> outputs_;
};

class WrappedBackend final : public Backend {
 public:
  WrappedBackend(std::unique_ptr<Backend> inner, int good_runs, int64_t free)
      : inner_(std::move(inner)), good_runs_(good_runs), free_(free) {}

  std::string Describe() const override { return inner_->Describe(); }
  absl::StatusOr<int64_t> FreeMemory() const override { return free_; }
  absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) override {
    const Program program = request.program;
    ASSIGN_OR_RETURN(auto executor, inner_->MakeExecutor(std::move(request)));
    return std::make_unique<BrokenExecutor>(std::move(executor), program, &good_runs_);
  }

 private:
  const std::unique_ptr<Backend> inner_;
  int good_runs_;  // still to come
  const int64_t free_;
};

absl::StatusOr<Machine> Wrapped(int good_runs, int64_t free) {
  ASSIGN_OR_RETURN(Machine machine, EmulatedMachine({}));
  machine.backend = std::make_unique<WrappedBackend>(std::move(machine.backend), good_runs, free);
  return machine;
}

}  // namespace

absl::StatusOr<Machine> EmulatedMachine(const MachineFlags&) {
  Machine machine{.device = "cuda", .name = kEmulatedName, .driver = "580.1"};
  ASSIGN_OR_RETURN(machine.backend,
                   MakeCudaBackend({.make_ops = [](void* stream) -> absl::StatusOr<StreamOps> {
                     return StreamOps{.workspace = nullptr,
                                      .products = nullptr,
                                      .ops = std::make_unique<parity::EnqueuedOps>(stream)};
                   }}));
  machine.emulate_link = MakeEmulatedLink;
  return machine;
}

MachineOpener BrokenMachine(int good_runs) {
  return
      [=](const MachineFlags&) { return Wrapped(good_runs, std::numeric_limits<int64_t>::max()); };
}

MachineOpener WrongBitMachine(const WrongBit& wrong) {
  return [=](const MachineFlags& flags) -> absl::StatusOr<Machine> {
    ASSIGN_OR_RETURN(Machine machine, EmulatedMachine(flags));
    machine.backend = std::make_unique<WrongBitBackend>(std::move(machine.backend), wrong);
    return machine;
  };
}

MachineOpener SmallMachine(int64_t free_bytes) {
  return [=](const MachineFlags&) { return Wrapped(std::numeric_limits<int>::max(), free_bytes); };
}

}  // namespace stretto::bench
