// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/gloo/pieces.h"

#include <algorithm>

#include "worker/comm/reduce.h"

namespace stretto {
namespace {

// Up to here a second network step costs more than sending everything to everyone. Two ranks send
// the same bytes either way, so they never take a second step, before which the wire would be idle
// until both threads have had their turn on a core that computes.
constexpr int64_t kOneStepBytes = 16 << 10;

}  // namespace

Pieces::Pieces(const Collective& collective, int ranks, int64_t most_bytes)
    : ranks_(ranks),
      elements_(collective.in.count()),
      element_bytes_(static_cast<int64_t>(SizeOf(collective.in.dtype))),
      whole_(collective.kind == CollectiveKind::kAllReduce &&
             (ranks <= 2 || collective.in.bytes() <= kOneStepBytes)),
      piece_(std::max<int64_t>(1, most_bytes / element_bytes_)) {
  for (int rank = 0; rank < ranks; ++rank) {
    count_ = std::max(count_, (PartOf(rank).count + piece_ - 1) / piece_);
  }
}

Pieces::Range Pieces::PartOf(int rank) const {
  if (whole_) return {0, elements_};
  const int64_t begin = PartBegin(elements_, rank, ranks_);
  return {begin, PartBegin(elements_, rank + 1, ranks_) - begin};
}

Pieces::Range Pieces::PieceOf(int rank, int64_t piece) const {
  const Range part = PartOf(rank);
  const int64_t begin = std::min(part.count, piece * piece_);
  return {part.begin + begin, std::min(piece_, part.count - begin)};
}

}  // namespace stretto
