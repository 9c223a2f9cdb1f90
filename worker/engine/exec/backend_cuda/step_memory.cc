// SPDX-License-Identifier: Apache-2.0

// The memory of one rank on the device: an arena per class (made here, or lent by another program),
// a pinned mirror on the host of the input and output arenas, and slots. A buffer that exists once
// per micro-batch is used through one of a few slots, so that addresses repeat and graphs can be
// replayed; LoadSlot and StoreSlot copy between the slot and the buffer of a micro-batch.

#include "worker/engine/exec/backend_cuda/step_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/units.h"
#include "worker/engine/memory/plan.h"

namespace stretto::cuda {
namespace {

bool IsMirrored(ArenaClass arena) {
  return arena == ArenaClass::kInput || arena == ArenaClass::kOutput;
}

// Waits for the null stream: a copy or fill without a stream may outlast its call, and no stream of
// a step waits for it.
absl::Status AwaitNullStream() {
  return ToStatus(cudaStreamSynchronize(nullptr), "copies to the device");
}

absl::Status Named(const absl::Status& status, absl::string_view what, int64_t bytes) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("cannot allocate ", what, " of ",
                                                  FormatBytes(bytes), ": ", status.message()));
}

}  // namespace

absl::StatusOr<StepMemory> StepMemory::Create(const StepProgram& step, const Program& program,
                                              int slots, const ArenaBytes& arenas,
                                              const PerArena<Arena>& lent, const Users& users,
                                              const Report& report) {
  RETURN_IF_ERROR(CheckBorrowed(lent, arenas));
  StepMemory memory(step, program, slots);
  RETURN_IF_ERROR(memory.Allocate(arenas, lent, users, report));
  return memory;
}

absl::Status StepMemory::Allocate(const ArenaBytes& arenas, const PerArena<Arena>& lent,
                                  const Users& users, const Report& report) {
  bytes_ = arenas;
  for (size_t i = 0; i < arenas.size(); ++i) {
    arenas_[i] = lent[i].memory;
    if (arenas_[i] != nullptr) bytes_[i] = lent[i].bytes;
    if (arenas_[i] == nullptr)
      RETURN_IF_ERROR(MakeArena(static_cast<ArenaClass>(i), users[i], report));
    device_[i] = arenas_[i].get();
  }
  RETURN_IF_ERROR(MakeSlots());
  return AwaitNullStream();
}

absl::Status StepMemory::MakeArena(ArenaClass arena, const std::vector<DeviceCommunicator*>& users,
                                   const Report& report) {
  const size_t size = std::max<int64_t>(bytes_[arena], kArenaAlignment);
  const std::string name = absl::StrCat("the ", NameOf(arena), " arena");
  absl::StatusOr<CollectiveMemory> made = CollectiveMemory::Make(size, users, report);
  RETURN_IF_ERROR(Named(made.status(), name, bytes_[arena]));
  const auto owner = std::make_shared<CollectiveMemory>(*std::move(made));
  arenas_[arena] = std::shared_ptr<void>(owner, owner->get());
  if (arena != ArenaClass::kActivation)
    RETURN_IF_CUDA_ERROR(cudaMemset(arenas_[arena].get(), 0, size));
  if (!IsMirrored(arena)) return absl::OkStatus();
  absl::StatusOr<PinnedMemory> mirror = MakePinnedMemory(size);
  RETURN_IF_ERROR(Named(mirror.status(), name + " on the host", bytes_[arena]));
  mirrors_[arena] = *std::move(mirror);
  host_[arena] = mirrors_[arena].get();
  std::memset(host_[arena], 0, size);
  return absl::OkStatus();
}

absl::Status StepMemory::MakeSlots() {
  for (BufferId id : step_->buffers.ids()) {
    const Buffer& buffer = step_->buffers[id];
    if (!IsSlotted(id) || buffer.alias >= 0) continue;
    STRETTO_CHECK(IsMirrored(buffer.arena));
    Slotted slotted{id, buffer.arena, buffer.bytes(), {}};
    for (int slot = 0; slot < slots_; ++slot) {
      absl::StatusOr<DeviceMemory> memory = MakeDeviceMemory(slotted.bytes);
      RETURN_IF_ERROR(
          Named(memory.status(), absl::StrCat("a slot for ", buffer.name), slotted.bytes));
      slotted.slots.push_back(*std::move(memory));
    }
    slotted_.push_back(std::move(slotted));
  }
  return absl::OkStatus();
}

Arena StepMemory::Lend(ArenaClass arena) const {
  STRETTO_CHECK(!IsMirrored(arena));
  return {arenas_[arena], bytes_[arena]};
}

bool StepMemory::IsSlotted(BufferId id) const {
  return step_->buffers.at(id).slots == kPerMicroBatch;
}

TensorView StepMemory::Operand(BufferId id, int micro_batch) const {
  TensorView view = Device(BufferMap(*step_).Find(id, micro_batch));
  if (!IsSlotted(id)) return view;
  const Root root = RootOf(step_->buffers, id);
  const auto slotted = std::find_if(slotted_.begin(), slotted_.end(),
                                    [&](const Slotted& s) { return s.id == root.buffer; });
  STRETTO_CHECK(slotted != slotted_.end());
  const size_t slot = std::max(micro_batch, 0) % slots_;
  view.data = static_cast<std::byte*>(slotted->slots[slot].get()) +
              root.element * static_cast<int64_t>(SizeOf(view.dtype));
  return view;
}

absl::Status StepMemory::CopyInputs(cudaStream_t stream) const {
  constexpr ArenaClass arena = ArenaClass::kInput;
  return ToStatus(
      cudaMemcpyAsync(device_[arena], host_[arena], bytes_[arena], cudaMemcpyHostToDevice, stream),
      "copy of the inputs");
}

absl::Status StepMemory::CopyOutputs(cudaStream_t stream) const {
  constexpr ArenaClass arena = ArenaClass::kOutput;
  return ToStatus(
      cudaMemcpyAsync(host_[arena], device_[arena], bytes_[arena], cudaMemcpyDeviceToHost, stream),
      "copy of the outputs");
}

absl::Status StepMemory::LoadSlot(int micro_batch, cudaStream_t stream) const {
  return MoveSlot(micro_batch, ArenaClass::kInput, stream);
}
absl::Status StepMemory::StoreSlot(int micro_batch, cudaStream_t stream) const {
  return MoveSlot(micro_batch, ArenaClass::kOutput, stream);
}

absl::Status StepMemory::MoveSlot(int micro_batch, ArenaClass arena, cudaStream_t stream) const {
  const BufferMap map(*step_);
  for (const Slotted& slotted : slotted_) {
    if (slotted.arena != arena) continue;
    void* to = slotted.slots[micro_batch % slots_].get();
    void* from = Device(map.Find(slotted.id, micro_batch)).data;
    if (arena == ArenaClass::kOutput) std::swap(to, from);
    RETURN_IF_ERROR(
        ToStatus(cudaMemcpyAsync(to, from, slotted.bytes, cudaMemcpyDeviceToDevice, stream),
                 absl::StrCat("copy of ", step_->buffers[slotted.id].name)));
  }
  return absl::OkStatus();
}

TensorView StepMemory::HostView(BufferId buffer) const {
  STRETTO_CHECK(IsHostVisible(program_->buffers, buffer));
  return ViewOf(program_->buffers, buffer, host_);
}

TensorView StepMemory::Staged(BufferId buffer, Bytes* memory) const {
  TensorView view = Device(buffer);
  memory->resize(std::max<size_t>(memory->size(), view.bytes()));
  view.data = memory->data();
  return view;
}

absl::StatusOr<TensorView> StepMemory::Read(BufferId buffer) {
  if (IsHostVisible(program_->buffers, buffer)) return HostView(buffer);
  const TensorView view = Staged(buffer, &read_);
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpy(view.data, Device(buffer).data, view.bytes(), cudaMemcpyDeviceToHost),
               absl::StrCat("copy of ", program_->buffers[buffer].name)));
  return view;
}

TensorView StepMemory::Stage(BufferId buffer) {
  return IsHostVisible(program_->buffers, buffer) ? HostView(buffer) : Staged(buffer, &written_);
}

absl::Status StepMemory::Write(BufferId buffer, const TensorView& staged) const {
  if (IsHostVisible(program_->buffers, buffer)) return absl::OkStatus();
  RETURN_IF_ERROR(
      ToStatus(cudaMemcpy(Device(buffer).data, staged.data, staged.bytes(), cudaMemcpyHostToDevice),
               absl::StrCat("copy of ", program_->buffers[buffer].name)));
  return AwaitNullStream();
}

absl::Status StepMemory::Clear(BufferId buffer) const {
  if (IsHostVisible(program_->buffers, buffer)) {
    const TensorView view = HostView(buffer);
    std::memset(view.data, 0, view.bytes());
    return absl::OkStatus();
  }
  const TensorView view = Device(buffer);
  RETURN_IF_ERROR(ToStatus(cudaMemset(view.data, 0, view.bytes()),
                           absl::StrCat("clearing of ", program_->buffers[buffer].name)));
  return AwaitNullStream();
}

}  // namespace stretto::cuda
