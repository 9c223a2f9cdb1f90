// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory in which the pieces of reductions arrive, and the receives that are posted into it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/comm/collective/collective.h"
#include "worker/comm/gloo/pieces.h"
#include "worker/comm/gloo/posts.h"

namespace stretto {

// The number of pieces that can be on their way. The place of a piece is its slot modulo kPlaces,
// so a piece can be received once the one that is kPlaces slots before it is reduced.
inline constexpr int64_t kPlaces = 8;

// Numbers of transfers (Posts).
struct PostedRange {
  size_t begin = 0, end = 0;
};

// A reduction, and what is posted of it.
struct Reduction {
  Collective call;
  Pieces pieces;
  uint64_t slot;                   // of the first piece; the others have the next ones
  int64_t received = 0, sent = 0;  // pieces whose receives, and whose sends, are posted
  std::array<PostedRange, kPlaces> receives = {}, sends = {};  // of the last pieces, in turn
};

// Used by one thread, but for what the mesh writes into it.
class ReceivePlaces {
 public:
  // 8 MiB together, or more with very many ranks; none for a group of one.
  ReceivePlaces(int rank, int size);

  // Cuts an all_reduce or a reduce_scatter into pieces that fit.
  Reduction ReductionOf(const Collective& collective, uint64_t slot) const;
  // Posts the receives of the next piece from every peer. Throws what Posts throws.
  void PostReceives(Reduction* reduction, Posts* posts);
  // Where a piece of a reduction arrives from `peer`.
  char* At(const Reduction& reduction, int64_t piece, int peer);

 private:
  const int rank_, size_;
  const int64_t place_bytes_;  // for all ranks together
  std::vector<char> memory_;
};

}  // namespace stretto
