// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's tensors on a device, and how the host meets them.
//
// Arenas lie on the device; inputs and outputs have a mirror in pinned memory of the host, moved at
// the ends of a step. What a step has once per micro-batch (tokens, losses) would have an address
// per micro-batch, and no graph could be replayed. So operations see the copy of a slot,
// micro-batch modulo slots, that is loaded from the arena before an instance and stored after it.

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

// Threads: one at a time.
class StepMemory {
 public:
  // By arena: the communicators whose collectives work on it.
  using Users = PerArena<std::vector<DeviceCommunicator*>>;

  // Everything of its own but activations starts as zeros. What is `lent` (ExecutorRequest::
  // borrowed) is registered already. Both programs are borrowed. Errors: those of
  // CollectiveMemory::Make, naming the arena and its size; InvalidArgument: it is too small.
  static absl::StatusOr<StepMemory> Create(const StepProgram& step, const Program& program,
                                           const ArenaBytes& arenas, const PerArena<Arena>& lent,
                                           const Users& users, const Report& report);

  // What an operation of a unit works on: buffer `id` of the step program, for a micro-batch.
  TensorView Operand(BufferId id, int micro_batch) const;
  // Whether that buffer has a copy per micro-batch.
  bool IsSlotted(BufferId id) const;

  // Between the host's mirrors and the arenas.
  absl::Status CopyInputs(cudaStream_t stream) const;
  absl::Status CopyOutputs(cudaStream_t stream) const;
  // Between the arenas and the slot of a micro-batch.
  absl::Status LoadSlot(int micro_batch, cudaStream_t stream) const;
  absl::Status StoreSlot(int micro_batch, cudaStream_t stream) const;

  Arena Lend(ArenaClass arena) const;

  // As Executor's, between steps. Stage and Read have a buffer each.
  TensorView HostView(BufferId buffer) const;
  absl::StatusOr<TensorView> Read(BufferId buffer);
  // Host memory to fill, and its way to the device.
  TensorView Stage(BufferId buffer);
  absl::Status Write(BufferId buffer, const TensorView& staged) const;

 private:
  struct Slotted {
    BufferId id = 0;  // of a root in the step program
    ArenaClass arena = ArenaClass::kInput;
    size_t bytes = 0;
    std::vector<DeviceMemory> slots;
  };
  using Bytes = std::vector<std::byte>;

  StepMemory(const StepProgram& step, const Program& program) : step_(&step), program_(&program) {}
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
  ArenaBytes bytes_ = {};
  PerArena<std::shared_ptr<void>> arenas_;  // in a CollectiveMemory, which may be another's
  PerArena<PinnedMemory> mirrors_;          // of inputs and outputs
  ArenaBases device_ = {}, host_ = {};
  std::vector<Slotted> slotted_;
  Bytes read_, written_;
};

}  // namespace stretto::cuda
