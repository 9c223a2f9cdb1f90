// SPDX-License-Identifier: Apache-2.0

// What crosses a boundary between stages: the residual stream in front of a layer, forward, or its
// gradient, backward. Plans of the layout (layout/transfers.h) say which rank sends which rows to
// whom, one for each slice of a replica of the other stage that has rows of this one. Both ends of
// a transfer have one tag, with the slice of the sender, and take transfers in one order. A slice
// is sent as soon as it exists, so slices follow each other through the stages.

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "worker/engine/layout/transfers.h"
#include "worker/engine/model/emitter.h"
#include "worker/engine/reshard/operations.h"

namespace stretto {

void Emitter::AddTransfers(const SliceState& slice, const Boundary& boundary, const Tag& tag,
                           BufferId x) {
  const bool sends = boundary.from == place_.stage;
  const int64_t before = int64_t{place_.replica} * SequencesOf(spec_, place_.stage) *
                         model_.sequence_length;  // rows of other replicas
  for (const CommonRows& rows : CommonRowsOf(spec_, boundary, place_)) {
    if ((sends ? rows.from : rows.to).slice != slice.index) continue;
    const HeldBox held{.buffer = x,
                       .box = {.starts = {before + slice.own_first - rows.begin, 0},
                               .extents = {slice.own_rows, hidden_}}};
    for (ReshardOp& of :
         OperationsOf(TransferPlan(spec_, boundary, rows), step_.rank, sends ? held : HeldBox(),
                      sends ? HeldBox() : held, spec_.wire_dtype, absl::StrCat(BufferName(x), "."),
                      &step_.buffers)) {
      Op& op = of.op;
      op.tag = tag;
      op.tag.slice = rows.from.slice;
      // A gather is of no layer: nothing recomputes it or orders it with the layer. Chunks share
      // its group, so its name has the layer.
      if (of.role != ReshardRole::kChain) {
        op.tag.layer = -1;
        op.tag.name = absl::StrCat(NameOf(of.role), tag.layer);
      }
      STRETTO_CHECK(!of.ranks.empty());  // rows are contiguous, so nothing is copied
      op.group = FindGroup(step_.groups, GroupNameOf(spec_, boundary, of.ranks));
      step_.units.back().ops.push_back(std::move(op));
    }
  }
}

// Between this chunk and the next one in the order of data flow, or the one before.
Boundary Emitter::BoundaryTo(bool next, Phase phase) const {
  Boundary boundary = BoundaryBefore(spec_, chunk_.number + (next ? 1 : 0));
  if (phase != Phase::kForward) std::swap(boundary.from, boundary.to);
  return boundary;
}

void Emitter::Send(const SliceState& slice, int layer, Phase phase, BufferId x) {
  const Boundary boundary = BoundaryTo(/*next=*/phase == Phase::kForward, phase);
  if (boundary.from == boundary.to) return;
  AddTransfers(slice, boundary, At(slice, "x", layer, phase), x);
}

BufferId Emitter::Receive(const SliceState& slice, int layer, Phase phase) {
  const bool forward = phase == Phase::kForward;
  const Boundary boundary = BoundaryTo(/*next=*/!forward, phase);
  if (boundary.from == boundary.to) return forward ? slice.x : slice.d;
  const BufferId x = Own(slice, forward ? "x" : "d_x", layer);
  AddTransfers(slice, boundary, At(slice, "x", layer, phase), x);
  return x;
}

}  // namespace stretto
