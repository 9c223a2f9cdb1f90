// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a reduction is cut: into parts, one for each rank to reduce, and parts into pieces, which
// travel one after the other.

#include <cstdint>

#include "worker/comm/collective/collective.h"

namespace stretto {

// Of an all_reduce or a reduce_scatter. A plain value: of the tensors, only counts and types are
// read.
class Pieces {
 public:
  // Elements of what a rank brings.
  struct Range {
    int64_t begin = 0;
    int64_t count = 0;
  };

  // No piece has more than `most_bytes`, which must hold at least one element.
  Pieces(const Collective& collective, int ranks, int64_t most_bytes);

  // Whether every rank reduces the whole tensor, so that nobody has to gather parts.
  bool whole() const { return whole_; }
  // What `rank` reduces.
  Range PartOf(int rank) const;
  // The piece number `piece` of that; empty where the part is shorter than others.
  Range PieceOf(int rank, int64_t piece) const;
  // The number of pieces of the longest part.
  int64_t count() const { return count_; }
  int64_t element_bytes() const { return element_bytes_; }

 private:
  int ranks_;
  int64_t elements_;  // of the tensor that all ranks bring
  int64_t element_bytes_;
  bool whole_;
  int64_t piece_;  // elements of a whole piece
  int64_t count_ = 0;
};

}  // namespace stretto
