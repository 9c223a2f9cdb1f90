// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/gloo/receive_places.h"

#include <algorithm>

namespace stretto {
namespace {

// Between two ranks, larger pieces do not travel faster.
constexpr int64_t kPlaceBytes = 1 << 20;

// A place holds at least one element of any type for every rank.
constexpr int64_t kElementBytes = 8;

}  // namespace

ReceivePlaces::ReceivePlaces(int rank, int size)
    : rank_(rank),
      size_(size),
      place_bytes_(size > 1 ? std::max(kPlaceBytes, kElementBytes * size) : 0),
      memory_(kPlaces * place_bytes_) {}

Reduction ReceivePlaces::ReductionOf(const Collective& collective, uint64_t slot) const {
  const int64_t most = size_ > 1 ? place_bytes_ / size_ : collective.in.bytes();
  return {.call = collective, .pieces = Pieces(collective, size_, most), .slot = slot};
}

void ReceivePlaces::PostReceives(Reduction* reduction, Posts* posts) {
  const int64_t piece = reduction->received++;
  const Pieces& pieces = reduction->pieces;
  const int64_t bytes = pieces.PieceOf(rank_, piece).count * pieces.element_bytes();
  const size_t first = posts->next();
  for (int peer = 0; peer < size_; ++peer) {
    posts->Post(peer, reduction->slot + piece, At(*reduction, piece, peer), bytes, true);
  }
  reduction->receives[piece % kPlaces] = {first, posts->next()};
}

char* ReceivePlaces::At(const Reduction& reduction, int64_t piece, int peer) {
  // No part is longer than that of rank 0.
  const int64_t bytes = reduction.pieces.PieceOf(0, 0).count * reduction.pieces.element_bytes();
  return memory_.data() + (reduction.slot + piece) % kPlaces * place_bytes_ + peer * bytes;
}

}  // namespace stretto
