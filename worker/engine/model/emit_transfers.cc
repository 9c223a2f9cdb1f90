// SPDX-License-Identifier: Apache-2.0

// What crosses a boundary between stages: the residual stream in front of a layer, forward, or its
// gradient, backward. A plan of the layout (layout/transfers.h) says which rank sends which rows to
// whom. Both ends of a transfer have one tag. A slice is sent as soon as it exists, so slices
// follow each other through the stages.

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "worker/engine/layout/transfers.h"
#include "worker/engine/model/emitter.h"
#include "worker/engine/reshard/operations.h"

namespace stretto {

// The rows of a slice that this rank holds, and the buffer that holds them.
HeldBox Emitter::RowsIn(const SliceState& slice, BufferId x) const {
  return {
      .buffer = x,
      .box = {.starts = {slice.own_first - slice.first, 0}, .extents = {slice.own_rows, hidden_}}};
}

void Emitter::AddTransfers(const SliceState& slice, const Boundary& boundary, const Tag& tag,
                           const HeldBox& in, const HeldBox& out) {
  const std::string prefix = absl::StrCat(BufferName(in.buffer >= 0 ? in.buffer : out.buffer), ".");
  const Resharding plan = TransferPlan(spec_, boundary, slice.rows);
  for (ReshardOp& of :
       OperationsOf(plan, step_.rank, in, out, spec_.wire_dtype, prefix, &step_.buffers)) {
    Op& op = of.op;
    op.tag = tag;
    // A gather is of no layer: nothing recomputes it or orders it with the layer.
    if (of.role != ReshardRole::kChain) {
      op.tag.layer = -1;
      op.tag.name = NameOf(of.role);
    }
    STRETTO_CHECK(!of.ranks.empty());  // rows are contiguous, so nothing is copied
    op.group = FindGroup(step_.groups, GroupNameOf(spec_, boundary, of.ranks));
    step_.units.back().ops.push_back(std::move(op));
  }
}

// Between this stage and the next one in the order of data flow, or the one before.
Boundary Emitter::BoundaryTo(bool next, bool sends) const {
  const int other = place_.stage + (next ? 1 : -1);
  Boundary boundary{.from = place_.stage,
                    .to = (other + spec_.pp_size) % spec_.pp_size,
                    .replica = place_.replica,
                    .wraps = other < 0 || other == spec_.pp_size};
  if (!sends) std::swap(boundary.from, boundary.to);
  return boundary;
}

void Emitter::Send(const SliceState& slice, int layer, Phase phase, BufferId x) {
  AddTransfers(slice, BoundaryTo(/*next=*/phase == Phase::kForward, /*sends=*/true),
               At(slice, "x", layer, phase), RowsIn(slice, x), {});
}

BufferId Emitter::Receive(const SliceState& slice, int layer, Phase phase) {
  const BufferId x = Own(slice, phase == Phase::kForward ? "x" : "d_x", layer);
  AddTransfers(slice, BoundaryTo(/*next=*/phase != Phase::kForward, /*sends=*/false),
               At(slice, "x", layer, phase), {}, RowsIn(slice, x));
  return x;
}

}  // namespace stretto
