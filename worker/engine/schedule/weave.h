// SPDX-License-Identifier: Apache-2.0
#pragma once
// The weave: an order over strands of segments (DESIGN section 4). Every overlapping schedule is a
// weave.
//
// A strand is the work of one slice. A segment is what a schedule appends in one call: a few words
// of the strand. A word stands for the operations of one layer and slice that have the same tag
// name, collectives included, in their canonical order:
//
//   "qkv"    forward           "d.qkv"  backward, up to the gradient of activations (dgrad)
//   "r.qkv"  recomputed        "w.qkv"  backward, gradients of parameters (wgrad)
//
// The ends of transfers between stages are "recv" and "send", with "d." in backward, outside the
// layers. What was received in front of layer 3 may need a "gather3".
//
// Names: embed position | ln1 qkv attention proj res1 ln2 fc1 act fc2 res2 | final_norm head max
// sum loss. res1 and res2 are the operations after a half-block's last collective (bias, dropout,
// residual). A collective starts as soon as its lane and its data allow; operations played after it
// run under it. Each operation is placed once, after everything that it depends on, so a schedule
// names only what it decides.
//
// If a unit has several micro-batches (its roles, see merge_wgrads.cc), they are woven one after
// the other.

#include <iterator>
#include <limits>
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
  using Word = std::tuple<std::string, int, int>;  // word, layer, slice

  // Borrows `step`, whose operations must be in canonical order and have no waits.
  Weaver(const StepProgram& step, UnitId unit);

  // Of the current role: its first layer, and the one behind its last.
  int first_layer() const { return layers_[role_].first; }
  int layers() const { return layers_[role_].end; }
  int slices() const { return slices_; }
  int roles() const { return std::ssize(words_); }

  // Selects another of the unit's micro-batches, in ascending order; the weaver starts with 0.
  // Operations of earlier micro-batches that were not played are appended in canonical order.
  void Enter(int role);
  // Selects any of the unit's micro-batches and appends nothing.
  void TurnTo(int role) { role_ = role; }

  // Whether the current role has operations of this word; slice -1: in any slice.
  bool Has(absl::string_view word, int layer, int slice) const;
  // The operations that each word of a role stands for.
  const std::map<Word, std::vector<OpId>>& words_of(int role) const { return words_[role]; }

  const IdVector<OpId, Op>& ops() const { return ops_; }  // in canonical order
  // What is placed before each operation: what it depends on, and what Require has added.
  const IdVector<OpId, std::vector<OpId>>& needs() const { return needs_; }
  // From now on, `earlier` is placed before `op`, on which it must not depend.
  void Require(OpId op, OpId earlier) { needs_[op].push_back(earlier); }

  // Appends the operations of `words`, separated by spaces, for one slice of the current role.
  // Layer -1, or a layer that the model does not have, selects the operations outside the layers.
  // Words without operations in this program are skipped.
  void Play(absl::string_view words, int layer, int slice);
  // Calls Play for every slice in turn.
  void PlayAll(absl::string_view words, int layer);

  // Puts a barrier behind all that was played, except for collectives that nothing played since the
  // last barrier needs. These come behind it, in front of what is played next.
  void Barrier();
  // The operations behind each barrier.
  const std::vector<OpId>& barriers() const { return barriers_; }

  // Returns the order: what was played, then all remaining operations in canonical order.
  std::vector<OpId> Finish();

 private:
  void Place(OpId op);

  const IdVector<OpId, Op>& ops_;
  struct Layers {
    int first = std::numeric_limits<int>::max(), end = 0;
  };
  int slices_ = 1, role_ = 0;
  std::vector<Layers> layers_;                            // by role
  std::vector<std::map<Word, std::vector<OpId>>> words_;  // by role
  IdVector<OpId, std::vector<OpId>> needs_;
  IdVector<OpId, bool> placed_;
  std::vector<OpId> order_;
  size_t block_ = 0;          // where the order is behind the last barrier
  bool before_next_ = false;  // the next operation is behind a barrier
  std::vector<OpId> barriers_;
};

// Turns the barriers of a unit's operations, which have `lanes` lanes and their waits, into waits
// (passes.h).
void HoldBarriers(size_t lanes, IdVector<OpId, Op>* ops);

// The part of a schedule of slices that is its own: the order within a layer. The embedding, the
// head, the turn from forward to backward, and the small gradients of norms after each layer are
// the same for all schedules: slices in turn, segment by segment.
struct Score {
  void (*forward)(Weaver& weaver, int layer);
  void (*backward)(Weaver& weaver, int layer);
};

// Orders every micro-batch of each unit of one (MicroBatchUnits) by a score.
absl::Status Arrange(const Score& score, StepProgram* step);

}  // namespace stretto
