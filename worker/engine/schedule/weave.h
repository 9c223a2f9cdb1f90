// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weave: strands of segments, and an order over them (DESIGN section 4). Every overlapping
// schedule is one.
//
// A strand is the work of one slice; a segment is what a schedule appends in one go: some words of
// the strand. A word is the operations of one layer and slice that carry one tag name, collectives
// included, in their canonical order:
//
//   "qkv"    forward           "d.qkv"  backward, up to the gradient of activations (dgrad)
//   "r.qkv"  recomputed        "w.qkv"  backward, gradients of parameters (wgrad)
//
// Names: embed position | ln1 qkv attention proj res1 ln2 fc1 act fc2 res2 | final_norm head max
// sum loss. res1 and res2 are what follows a half-block's last collective (bias, dropout,
// residual). A collective starts as soon as its lane and its data allow; what is played after it
// runs under it. Nothing is played twice, and what an operation depends on is played before it, so
// a schedule names only what it decides.
//
// Where a unit has several micro-batches (its roles, see merge_wgrads.cc) they are woven one after
// the other.

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

class Weaver {
 public:
  // Borrows `step`, whose operations must stand in canonical order without waits.
  Weaver(const StepProgram& step, UnitId unit);

  int layers() const { return layers_; }
  int slices() const { return slices_; }
  int roles() const { return static_cast<int>(words_.size()); }

  // Turns to another of the unit's micro-batches, in ascending order; starts with 0. What is left
  // of those before it is appended as it stood.
  void Enter(int role);

  // Appends words, separated by spaces, of a slice of the role. Layer -1, or one that the model has
  // not, means what stands outside the layers. Words that this program lacks are passed over.
  void Play(absl::string_view words, int layer, int slice);
  // The same for every slice in turn.
  void PlayAll(absl::string_view words, int layer);

  // The order: what was played, then the rest as it stood.
  std::vector<OpId> Finish();

 private:
  using Word = std::tuple<std::string, int, int>;  // word, layer, slice
  void Place(OpId op);

  const IdVector<OpId, Op>& ops_;
  int layers_ = 0, slices_ = 1;
  int role_ = 0;
  std::vector<std::map<Word, std::vector<OpId>>> words_;  // by role
  IdVector<OpId, std::vector<OpId>> needs_;
  IdVector<OpId, bool> placed_;
  std::vector<OpId> order_;
};

// What a schedule of slices decides: the order within a layer. The embedding, the head and the
// turn from forward to backward are the same for all: slices in turn, segment by segment; so are
// the small gradients of norms, behind each layer.
struct Score {
  void (*forward)(Weaver& weaver, int layer);
  void (*backward)(Weaver& weaver, int layer);
};

// Orders every micro-batch of the unit by a score.
absl::Status Arrange(const Score& score, StepProgram* step);

}  // namespace stretto
