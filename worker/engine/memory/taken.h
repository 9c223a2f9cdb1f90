// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which addresses of the arena of activations are taken, and when. Not thread-safe.

#include <cstdint>
#include <memory>
#include <utility>

#include "worker/engine/memory/lives.h"

namespace stretto {

class TakenAddresses {
 public:
  // No address is taken. `live` must outlive this object.
  explicit TakenAddresses(const LiveBuffers& live);
  ~TakenAddresses();

  // Gives a buffer of `live` the addresses from `begin` to `end`.
  void Add(BufferId buffer, int64_t begin, int64_t end);

  // Returns the lowest offset at which the next `bytes` have no buffer that conflicts.
  int64_t LowestGap(BufferId buffer, int64_t bytes);

 private:
  class Windows;
  const LiveBuffers& live_;
  std::unique_ptr<Windows> windows_;
  // Per buffer, the last search that compared it, and whether it conflicted there.
  IdVector<BufferId, std::pair<int, bool>> compared_;
  int search_ = 0;  // the number of searches
};

}  // namespace stretto
