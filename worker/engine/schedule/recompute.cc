// SPDX-License-Identifier: Apache-2.0

// Recomputes activations in the backward pass instead of keeping them. The pass walks the unit in
// order. When a backward operation reads a buffer all of whose writers are selected, the writers
// are cloned before that operation, recursively with everything they read, and write to a copy of
// the buffer ("NAME.again"). The original buffer then has no reader in backward, so its memory is
// free after forward. Each writer is cloned once, before the first use of its result.

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

class Recomputation {
 public:
  Recomputation(const ScheduleSpec& schedule, StepProgram* step, Unit* unit)
      : what_(schedule.recompute),
        // With sequence parallelism the gathered result of a norm is kept, so running the norm
        // again would free nothing.
        ungathered_(!schedule.sequence_parallel),
        step_(step),
        unit_(unit) {
    for (OpId op : unit->ops.ids()) {
      if (unit->ops[op].tag.phase != Phase::kForward) continue;
      for (BufferId id : unit->ops[op].out) {
        std::vector<OpId>& writers = writers_[RootBuffer(id)];
        if (writers.empty() || writers.back() != op) writers.push_back(op);
      }
    }
  }

  void Run() {
    const IdVector<OpId, Op> ops = std::move(unit_->ops);
    unit_->ops.clear();
    ops_ = &ops;
    for (Op op : ops) {
      if (op.tag.phase == Phase::kBackward) {
        for (BufferId& id : op.in) id = Again(id);
        // An in-place operand is in both lists and must be the same buffer in both.
        for (BufferId& id : op.out) id = Copy(id);
      }
      unit_->ops.push_back(std::move(op));
    }
  }

 private:
  BufferId RootBuffer(BufferId id) const { return RootOf(step_->buffers, id).buffer; }

  bool Chosen(const Op& op) const {
    if (op.tag.layer < 0 || IsTransfer(op.kind)) return false;
    if (what_ == Recompute::kFull) return op.tag.name != "res2";  // the next layer's input is kept
    const Recomputed recomputed = InfoOf(op.kind).recomputed;
    return recomputed == Recomputed::kAlways ||
           (recomputed == Recomputed::kUngathered && ungathered_);
  }

  // Whether all operations that write this memory are selected. If one is not, its result would be
  // lost, and the buffer must be kept.
  bool ComputedAgain(BufferId root) const {
    const auto it = writers_.find(root);
    if (it == writers_.end()) return false;
    for (OpId writer : it->second) {
      if (!Chosen((*ops_)[writer])) return false;
    }
    return true;
  }

  // Returns the recomputed copy of buffer `id`, after adding the operations that compute it, or
  // `id` itself when the buffer is kept.
  BufferId Again(BufferId id) {
    const BufferId root = RootBuffer(id);
    if (!ComputedAgain(root)) return id;
    if (!copies_.contains(root)) {
      CopyRoot(root);
      for (OpId writer : writers_.at(root)) Clone(writer);
    }
    return Copy(id);
  }

  void Clone(OpId index) {
    if (!cloned_.try_emplace(index).second) return;
    Op op = (*ops_)[index];
    op.tag.phase = Phase::kRecompute;
    for (BufferId& id : op.in) id = Again(id);
    // An operation may have outputs that no backward operation has asked for yet.
    for (BufferId& id : op.out) {
      if (!copies_.contains(RootBuffer(id))) CopyRoot(RootBuffer(id));
      id = Copy(id);
    }
    unit_->ops.push_back(std::move(op));
  }

  void CopyRoot(BufferId root) {
    Buffer buffer = step_->buffers[root];
    absl::StrAppend(&buffer.name, ".again");
    copies_[root] = step_->buffers.Add(std::move(buffer));
  }

  // Returns the copy of `id`, a view of the copied root where `id` is a view; `id` itself when its
  // memory has no copy.
  BufferId Copy(BufferId id) {
    if (const auto it = copies_.find(id); it != copies_.end()) return it->second;
    Buffer view = step_->buffers[id];
    if (view.alias < 0) return id;
    const BufferId parent = Copy(view.alias);
    if (parent == view.alias) return id;
    view.alias = parent;
    absl::StrAppend(&view.name, ".again");
    return copies_[id] = step_->buffers.Add(std::move(view));
  }

  const Recompute what_;
  const bool ungathered_;
  StepProgram* const step_;
  Unit* const unit_;
  const IdVector<OpId, Op>* ops_ = nullptr;
  std::map<BufferId, std::vector<OpId>> writers_;  // of a root buffer, in forward
  std::map<BufferId, BufferId> copies_;
  std::map<OpId, bool> cloned_;
};

}  // namespace

absl::Status RecomputeActivations(const EngineSpec& spec, StepProgram* step) {
  if (spec.schedule.recompute == Recompute::kNone) return absl::OkStatus();
  Unit& unit = step->units[FindUnit(*step, kMicroBatchUnit)];
  Recomputation(spec.schedule, step, &unit).Run();
  return absl::OkStatus();
}

}  // namespace stretto
