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
std::vector<Region> RegionsOf(const std::vector<Buffer>& buffers);

// Every space cut where a region begins or ends: two regions overlap where they share a segment,
// and a segment is touched whole or not at all.
struct Segments {
  std::vector<int> begin, end;  // of every region: the segments [begin, end), none when it is empty
  int count = 0;
};
Segments SegmentsOf(const std::vector<Region>& regions);

// For every buffer, the buffers whose region overlaps it, itself excluded.
std::vector<std::vector<int>> OverlapsOf(const std::vector<Region>& regions);

}  // namespace stretto
