// Recomputes activations in backward instead of keeping them. The pass goes through the unit in
// order. Where an operation of backward reads a buffer all of whose writers are chosen for
// recomputation, the writers are cloned in front of it, recursively with what they read, and write
// to a copy of the buffer ("NAME.again"). The original then has no reader in backward, so its
// memory is free after forward. Each writer is cloned once, in front of its first use.

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
        // Gathered, a norm's result is kept, and then the norm gains nothing.
        ungathered_(!schedule.sequence_parallel),
        step_(step),
        unit_(unit) {
    for (size_t i = 0; i < unit->ops.size(); ++i) {
      if (unit->ops[i].tag.phase != Phase::kForward) continue;
      for (int id : unit->ops[i].out) {
        std::vector<size_t>& writers = writers_[RootBuffer(id)];
        if (writers.empty() || writers.back() != i) writers.push_back(i);
      }
    }
  }

  void Run() {
    const std::vector<Op> ops = std::move(unit_->ops);
    unit_->ops.clear();
    ops_ = &ops;
    for (Op op : ops) {
      if (op.tag.phase == Phase::kBackward) {
        for (int& id : op.in) id = Again(id);
        // In-place operands stand in both lists.
        for (int& id : op.out) id = Copy(id);
      }
      unit_->ops.push_back(std::move(op));
    }
  }

 private:
  int RootBuffer(int id) const { return RootOf(step_->buffers, id).buffer; }

  bool Chosen(const Op& op) const {
    if (op.tag.layer < 0) return false;
    if (what_ == Recompute::kFull) return op.tag.name != "res2";  // the next layer's input is kept
    const Recomputed recomputed = InfoOf(op.kind).recomputed;
    return recomputed == Recomputed::kAlways ||
           (recomputed == Recomputed::kUngathered && ungathered_);
  }

  // Everything that ends up in this memory is chosen.
  bool ComputedAgain(int root) const {
    const auto it = writers_.find(root);
    if (it == writers_.end()) return false;
    for (size_t writer : it->second) {
      if (!Chosen((*ops_)[writer])) return false;
    }
    return true;
  }

  // The recomputed copy of buffer `id`, its operations placed before; `id` itself when it is kept.
  int Again(int id) {
    const int root = RootBuffer(id);
    if (!ComputedAgain(root)) return id;
    if (!copies_.contains(root)) {
      CopyRoot(root);
      for (size_t writer : writers_.at(root)) Clone(writer);
    }
    return Copy(id);
  }

  void Clone(size_t index) {
    if (!cloned_.try_emplace(index).second) return;
    Op op = (*ops_)[index];
    op.tag.phase = Phase::kRecompute;
    for (int& id : op.in) id = Again(id);
    for (int& id : op.out) {
      if (!copies_.contains(RootBuffer(id))) CopyRoot(RootBuffer(id));
      id = Copy(id);
    }
    unit_->ops.push_back(std::move(op));
  }

  void CopyRoot(int root) {
    Buffer buffer = step_->buffers[static_cast<size_t>(root)];
    absl::StrAppend(&buffer.name, ".again");
    step_->buffers.push_back(std::move(buffer));
    copies_[root] = static_cast<int>(step_->buffers.size()) - 1;
  }

  // The copy of `id` where its memory has one, else `id`.
  int Copy(int id) {
    if (const auto it = copies_.find(id); it != copies_.end()) return it->second;
    Buffer view = step_->buffers[static_cast<size_t>(id)];
    if (view.alias < 0) return id;
    const int parent = Copy(view.alias);
    if (parent == view.alias) return id;
    view.alias = parent;
    absl::StrAppend(&view.name, ".again");
    step_->buffers.push_back(std::move(view));
    return copies_[id] = static_cast<int>(step_->buffers.size()) - 1;
  }

  const Recompute what_;
  const bool ungathered_;
  StepProgram* const step_;
  Unit* const unit_;
  const std::vector<Op>* ops_ = nullptr;
  std::map<int, std::vector<size_t>> writers_;  // of a root buffer, in forward
  std::map<int, int> copies_;
  std::map<size_t, bool> cloned_;
};

}  // namespace

absl::Status RecomputeActivations(const EngineSpec& spec, StepProgram* step) {
  if (spec.schedule.recompute == Recompute::kNone) return absl::OkStatus();
  Unit& unit = step->units[static_cast<size_t>(FindUnit(*step, kMicroBatchUnit))];
  Recomputation(spec.schedule, step, &unit).Run();
  return absl::OkStatus();
}

}  // namespace stretto
