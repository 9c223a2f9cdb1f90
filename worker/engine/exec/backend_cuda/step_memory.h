// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's tensors on a device, and the host's access to them.
//
// Arenas are on the device. Inputs and outputs have a mirror in pinned host memory, which is copied
// at the ends of a step. A buffer that exists once per micro-batch (tokens, losses) would have an
// address per micro-batch, so no graph could be replayed. Operations therefore use a copy in a
// slot, micro-batch modulo slots (issue_plan.h, staging_slots), which is loaded from the arena
// before an instance and stored after it.

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/arena_view.h"
#include "worker/engine/exec/backend_cuda/collective_memory.h"
#include "worker/engine/exec/backend_cuda/handles.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto::cuda {

// Not thread-safe.
class StepMemory {
 public:
  // By arena, the communicators whose collectives use it.
  using Users = PerArena<std::vector<DeviceCommunicator*>>;

  // Memory of its own starts as zeros, except activations. Memory that is `lent` (ExecutorRequest::
  // borrowed) is already registered. Both programs are borrowed. Errors: those of
  // CollectiveMemory::Make, naming the arena and its size; InvalidArgument, lent memory is too
  // small.
  static absl::StatusOr<StepMemory> Create(const StepProgram& step, const Program& program,
                                           int slots, const ArenaBytes& arenas,
                                           const PerArena<Arena>& lent, const Users& users,
                                           const Report& report);

  // Returns the operand of a unit's operation: buffer `id` of the step program, for a micro-batch.
  TensorView Operand(BufferId id, int micro_batch) const;
  // Whether operations use that buffer through slots.
  bool IsSlotted(BufferId id) const;

  // Copy between the host's mirrors and the arenas.
  absl::Status CopyInputs(cudaStream_t stream) const;
  absl::Status CopyOutputs(cudaStream_t stream) const;
  // Copy between the arenas and the slot of a micro-batch.
  absl::Status LoadSlot(int micro_batch, cudaStream_t stream) const;
  absl::Status StoreSlot(int micro_batch, cudaStream_t stream) const;

  Arena Lend(ArenaClass arena) const;

  // The functions of Executor, between steps. Stage and Read have a host buffer each.
  TensorView HostView(BufferId buffer) const;
  absl::StatusOr<TensorView> Read(BufferId buffer);
  // Returns host memory to fill; Write then copies it to the device.
  TensorView Stage(BufferId buffer);
  absl::Status Write(BufferId buffer, const TensorView& staged) const;
  absl::Status Clear(BufferId buffer) const;

 private:
  struct Slotted {
    BufferId id = 0;  // of a root in the step program
    ArenaClass arena = ArenaClass::kInput;
    int64_t bytes = 0;
    std::vector<DeviceMemory> slots;
  };
  using Bytes = std::vector<std::byte>;

  StepMemory(const StepProgram& step, const Program& program, int slots)
      : step_(&step), program_(&program), slots_(slots) {}
  absl::Status Allocate(const ArenaBytes& arenas, const PerArena<Arena>& lent, const Users& users,
                        const Report& report);
  absl::Status MakeArena(ArenaClass arena, const std::vector<DeviceCommunicator*>& users,
                         const Report& report);
  absl::Status MakeSlots();
  absl::Status MoveSlot(int micro_batch, ArenaClass arena, cudaStream_t stream) const;
  TensorView Device(BufferId buffer) const { return ViewOf(program_->buffers, buffer, device_); }
  TensorView Staged(BufferId buffer, Bytes* memory) const;

  const StepProgram* step_;
  const Program* program_;
  int slots_;
  ArenaBytes bytes_ = {};
  PerArena<std::shared_ptr<void>> arenas_;  // in a CollectiveMemory, which may be another's
  PerArena<PinnedMemory> mirrors_;          // of inputs and outputs
  ArenaBases device_ = {}, host_ = {};
  std::vector<Slotted> slotted_;
  Bytes read_, written_;
};

}  // namespace stretto::cuda
