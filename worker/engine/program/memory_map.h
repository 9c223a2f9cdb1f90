// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of buffers and which of them overlap: by planned address where memory is planned,
// otherwise by alias root.

#include <cstdint>
#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

struct Region {
  int space = 0;               // regions of the same space share addresses
  int64_t begin = 0, end = 0;  // bytes
  bool Overlaps(const Region& other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

// Returns the region of every buffer.
IdVector<BufferId, Region> RegionsOf(const IdVector<BufferId, Buffer>& buffers);

// Whether memory of this class holds values before the step.
inline bool IsGiven(ArenaClass arena) {
  return arena == ArenaClass::kParameter || arena == ArenaClass::kOptimizer ||
         arena == ArenaClass::kInput;
}

// Every space, cut at the ends of all regions. Two regions overlap if and only if they share a
// segment, and a region covers each segment completely or not at all.
struct Segments {
  // For each region, its segments [begin, end); none when the region is empty.
  IdVector<BufferId, size_t> begin, end;
  size_t count = 0;
  std::vector<int64_t> byte;  // [segment]: where it begins in its space
};
Segments SegmentsOf(const IdVector<BufferId, Region>& regions);

// Returns, for every buffer, the other buffers whose regions overlap its region.
IdVector<BufferId, std::vector<BufferId>> OverlapsOf(const IdVector<BufferId, Region>& regions);

}  // namespace stretto
