// SPDX-License-Identifier: Apache-2.0

// Files the operations of a unit by word, layer and slice, and appends those of a word that is
// played, each behind all that it depends on. A micro-batch is played from the first layer of its
// unit to the last and back, with what is outside the layers around them. Behind a barrier, the
// first operation of each lane waits for the last one in front of it on every other lane.

#include "worker/engine/schedule/weave.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/reorder/dependencies.h"
#include "worker/engine/schedule/reorder/expand_unit.h"
#include "worker/engine/schedule/reorder/reorder.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

std::string WordOf(const Op& op) {
  if (IsTransfer(op.kind)) {
    return absl::StrCat(op.tag.phase == Phase::kBackward ? "d." : "", InfoOf(op.kind).name);
  }
  if (op.tag.phase == Phase::kRecompute) return absl::StrCat("r.", op.tag.name);
  if (op.tag.phase != Phase::kBackward) return op.tag.name;
  const bool wgrad = InfoOf(op.kind).role == OperationRole::kWeightGradient;
  return absl::StrCat(wgrad ? "w." : "d.", op.tag.name);
}

IdVector<OpId, std::vector<OpId>> NeedsOf(const StepProgram& step, UnitId unit) {
  const Program expanded = ExpandUnit(step, unit);
  return DependenciesOf(expanded.ops, expanded.buffers);
}

}  // namespace

Weaver::Weaver(const StepProgram& step, UnitId unit)
    : ops_(step.units.at(unit).ops),
      layers_(1),
      words_(1),
      needs_(NeedsOf(step, unit)),
      placed_(ops_.size(), false) {
  for (OpId op : ops_.ids()) {
    const Tag& tag = ops_[op].tag;
    const size_t role = std::max(tag.micro_batch, 0);
    words_.resize(std::max(words_.size(), role + 1));
    layers_.resize(words_.size());
    const int layer = IsTransfer(ops_[op].kind) ? -1 : tag.layer;
    words_[role][{WordOf(ops_[op]), layer, tag.slice}].push_back(op);
    Layers& layers = layers_[role];
    if (layer >= 0) layers.first = std::min(layers.first, layer);
    layers.end = std::max(layers.end, layer + 1);
    slices_ = std::max(slices_, tag.slice + 1);
  }
}

void Weaver::Place(OpId op) {
  if (placed_[op]) return;
  // The dependencies point backwards in canonical order, so the recursion ends.
  placed_[op] = true;
  for (OpId needed : needs_[op]) Place(needed);
  order_.push_back(op);
  if (std::exchange(before_next_, false)) barriers_.push_back(op);
}

void Weaver::Barrier() {
  const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(block_);
  std::set<OpId> needed;  // by what stays in front of the barrier
  for (auto op = order_.rbegin(); op != std::make_reverse_iterator(begin); ++op) {
    if (IsCollective(ops_[*op].kind) && !needed.contains(*op)) continue;
    needed.insert(*op);
    needed.insert(needs_[*op].begin(), needs_[*op].end());
  }
  const auto behind =
      std::stable_partition(begin, order_.end(), [&](OpId op) { return needed.contains(op); });
  block_ = order_.size();
  before_next_ = behind == order_.end();
  if (!before_next_) barriers_.push_back(*behind);
}

void Weaver::Enter(int role) {
  for (OpId op = 0; op < ops_.next() && ops_[op].tag.micro_batch < role; ++op) Place(op);
  role_ = role;
}

bool Weaver::Has(absl::string_view word, int layer, int slice) const {
  const auto& mine = words_[role_];
  if (slice >= 0) return mine.contains({std::string(word), layer, slice});
  const auto it = mine.lower_bound({std::string(word), layer, -1});
  return it != mine.end() && std::get<0>(it->first) == word && std::get<1>(it->first) == layer;
}

void Weaver::Play(absl::string_view words, int layer, int slice) {
  if (layer >= layers()) layer = -1;
  for (absl::string_view word : absl::StrSplit(words, ' ')) {
    const auto& mine = words_[role_];
    const auto it = mine.find({std::string(word), layer, slice});
    if (it == mine.end()) continue;
    for (OpId op : it->second) Place(op);
  }
}

void Weaver::PlayAll(absl::string_view words, int layer) {
  for (int slice = 0; slice < slices_; ++slice) Play(words, layer, slice);
}

std::vector<OpId> Weaver::Finish() {
  for (OpId op : ops_.ids()) Place(op);
  return order_;
}

namespace {

void PlayMicroBatch(const Score& score, Weaver& weaver) {
  // Transfers are in the order of slices, so that both ends have the same order.
  weaver.PlayAll("embed recv gather", -1);
  for (int layer = weaver.first_layer(); layer < weaver.layers(); ++layer)
    score.forward(weaver, layer);
  weaver.PlayAll("send", -1);
  // All slices reach "max" before any plays "sum", so the reduction of one slice's maxima runs
  // under the head of the next.
  weaver.PlayAll("final_norm head max", -1);
  weaver.PlayAll("sum", -1);
  // Where the next chunk is on the same stage, nothing of this one reads the result.
  weaver.PlayAll("res2", weaver.layers() - 1);
  weaver.PlayAll("d.loss d.head w.head", -1);
  // Only the host reads the losses, so they are computed off the critical path.
  weaver.PlayAll("loss", -1);
  weaver.PlayAll("d.recv d.gather", -1);
  for (int layer = weaver.layers() - 1; layer >= weaver.first_layer(); --layer) {
    score.backward(weaver, layer);
    // Nothing but the optimizer waits for the gradients of norms.
    weaver.PlayAll("w.ln2", layer);
    weaver.PlayAll("w.ln1 w.final_norm", layer + 1);
  }
  for (int slice = 0; slice < weaver.slices(); ++slice) {
    weaver.Play("d.ln1", weaver.first_layer(), slice);
    weaver.Play("d.position d.embed d.send", -1, slice);
  }
}

}  // namespace

absl::Status Arrange(const Score& score, StepProgram* step) {
  for (UnitId unit : MicroBatchUnits(*step)) {
    Weaver weaver(*step, unit);
    for (int role = 0; role < weaver.roles(); ++role) {
      weaver.Enter(role);
      PlayMicroBatch(score, weaver);
    }
    RETURN_IF_ERROR(Reorder(step, unit, weaver.Finish()));
  }
  return absl::OkStatus();
}

namespace {

void AddWait(OpId earlier, WaitList* waits) {
  const auto at = std::lower_bound(waits->begin(), waits->end(), earlier);
  if (at == waits->end() || *at != earlier) waits->insert(at, earlier);
}

}  // namespace

void HoldBarriers(size_t lanes, IdVector<OpId, Op>* ops) {
  IdVector<LaneId, OpId> last(lanes, -1), in_front = last;
  IdVector<LaneId, bool> begun(lanes, true);  // behind the barrier; the rest of the lane follows
  for (OpId id : ops->ids()) {
    Op& op = (*ops)[id];
    if (std::exchange(op.barrier, false)) {
      in_front = last;
      begun.assign(lanes, false);
    }
    if (MovesBetweenStages(op)) continue;
    for (LaneId lane : in_front.ids()) {
      if (!begun[op.lane] && lane != op.lane && in_front[lane] >= 0)
        AddWait(in_front[lane], &op.waits);
    }
    begun[op.lane] = true;
    last[op.lane] = id;
  }
}

absl::Status HoldBarriers(const EngineSpec&, StepProgram* step) {
  for (Unit& unit : step->units) HoldBarriers(step->lanes.size(), &unit.ops);
  return absl::OkStatus();
}

}  // namespace stretto
