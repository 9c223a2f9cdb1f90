// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where buffers lie and which overlap: by planned address where there is one, else by alias root.

#include <cstdint>
#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

struct Region {
  int space = 0;               // equal spaces share addresses
  int64_t begin = 0, end = 0;  // bytes
  bool Overlaps(const Region& other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
};

// The region of every buffer.
IdVector<BufferId, Region> RegionsOf(const IdVector<BufferId, Buffer>& buffers);

// Every space cut where a region begins or ends: two regions overlap where they share a segment,
// and a segment is touched whole or not at all.
struct Segments {
  // Of every region: the segments [begin, end), none when it is empty.
  IdVector<BufferId, size_t> begin, end;
  size_t count = 0;
};
Segments SegmentsOf(const IdVector<BufferId, Region>& regions);

// For every buffer, the buffers whose region overlaps it, itself excluded.
IdVector<BufferId, std::vector<BufferId>> OverlapsOf(const IdVector<BufferId, Region>& regions);

}  // namespace stretto
