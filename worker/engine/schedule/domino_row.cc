// SPDX-License-Identifier: Apache-2.0

// domino_row (Wang et al. 2024, section 4): the batch in p slices that take turns, half-block by
// half-block and across layers, so that a slice's collective runs under another's compute. The
// paper's figure groups the norms of all slices between attention and MLP, which leaves the last
// collective of attention little to hide under; here each norm goes with its slice.
//
// Backward has its own order, not the mirror of forward: dgrad chain, launch, then that
// half-block's weight gradients, which nothing waits for.
//
//   forward   compute | ATT0 | ATT1 | MLP0 | MLP1 | ATT0' | ATT1' |          (' = next layer)
//             comm.tp |      | ARa0 | ARa1 | ARm0 | ARm1  | ...
//   backward  compute | d(MLP0) | w(MLP0) d(MLP1) | w(MLP1) d(ATT0) | w(ATT0) d(ATT1) |
//             comm.tp |         | AR0             | AR1             | AR0             |
//
// With sequence parallelism a half-block has two collectives, with the norm between them. The norm
// of one slice then comes before the last product of the next slice, so that its all-gather (AG)
// runs under that product:
//
//   forward   compute | QKV0 CORE0 | LN1_1 | PROJ0 | QKV1 CORE1 | LN2_0 | PROJ1 | FC1_0 ACT0 | ...
//             comm.tp | ...                | AG1   | RS0                | AG0   | RS1

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {
namespace domino_row {

void Forward(Weaver& weaver, int layer) {
  weaver.PlayAll("ln1 qkv attention proj", layer);
  weaver.PlayAll("res1 ln2 fc1 act fc2", layer);
}

void Backward(Weaver& weaver, int layer) {
  weaver.PlayAll("r.ln1 r.qkv r.attention r.proj", layer);
  weaver.PlayAll("r.res1 r.ln2 r.fc1 r.act d.fc2 d.act d.fc1 w.fc2 w.fc1", layer);
  weaver.PlayAll("d.ln2 d.proj d.attention d.qkv w.proj w.qkv", layer);
}

// Plays the norm of the slice before between the first products of a slice and its last product.
// Slice 0 has no slice before it in its half-block; there the norm of the last slice is played,
// whose reduce-scatter was launched at the end of the half-block before.
void ForwardWithGathers(Weaver& weaver, int layer) {
  const int last = weaver.slices() - 1;
  for (int slice = 0; slice <= last; ++slice) {
    weaver.Play("qkv attention", layer, slice);
    slice == 0 ? weaver.Play("ln1", layer, last) : weaver.Play("ln2", layer, slice - 1);
    weaver.Play("proj", layer, slice);
  }
  for (int slice = 0; slice <= last; ++slice) {
    weaver.Play("fc1 act", layer, slice);
    slice == 0 ? weaver.Play("ln2", layer, last)
               : weaver.Play("ln1 final_norm", layer + 1, slice - 1);
    weaver.Play("fc2", layer, slice);
  }
}

// The same pattern three times: recomputation of attention, recomputation and dgrad of the MLP, and
// dgrad of attention. The words that end in an all-gather (r.ln1, r.ln2, d.res1, d.res2) of one
// slice are played before the last products of the next slice, which hide it.
void BackwardWithGathers(Weaver& weaver, int layer) {
  const int last = weaver.slices() - 1;
  for (int slice = 0; slice <= last; ++slice) {
    weaver.Play("r.qkv r.attention", layer, slice);
    slice == 0 ? weaver.Play("r.ln1", layer, last) : weaver.Play("r.ln2", layer, slice - 1);
    weaver.Play("r.proj", layer, slice);
  }
  for (int slice = 0; slice <= last; ++slice) {
    weaver.Play("r.fc1 r.act d.fc2 d.act", layer, slice);
    if (slice == 0) weaver.Play("r.ln2", layer, last);
    slice == 0 ? weaver.Play("d.res2", layer, last) : weaver.Play("d.res1", layer, slice - 1);
    weaver.Play("d.fc1 w.fc2 w.fc1", layer, slice);
  }
  for (int slice = 0; slice <= last; ++slice) {
    weaver.Play("d.proj d.attention", layer, slice);
    slice == 0 ? weaver.Play("d.res1", layer, last)
               : weaver.Play("d.res2 r.ln1", layer - 1, slice - 1);
    weaver.Play("d.qkv w.proj w.qkv", layer, slice);
  }
}

}  // namespace domino_row

absl::Status DominoRow(const EngineSpec& spec, StepProgram* step) {
  if (spec.schedule.sequence_parallel)
    return Arrange({domino_row::ForwardWithGathers, domino_row::BackwardWithGathers}, step);
  return Arrange({domino_row::Forward, domino_row::Backward}, step);
}

}  // namespace stretto
