#pragma once
// Strands of segments, and orders over them: what every overlapping schedule is made of (DESIGN
// section 4, "Weave").
//
// A strand is the work of one slice, a chain of segments. A segment is a chain of operations ended
// by a collective, plus filler that only the optimizer waits for (weight gradients). While the
// collective of one strand is in flight, the filler of its segment and the next segment of another
// strand compute.

#include <utility>
#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

struct Segment {
  std::vector<int> chain;
  int collective = -1;  // -1: the strand's last segment
  std::vector<int> filler;
};
using Strand = std::vector<Segment>;

// The strands of a unit by slice, operations in their present order. Every operation must belong to
// a slice (CHECK).
std::vector<Strand> StrandsOf(const Unit& unit);

// Segment k of every strand, then segment k+1, strands ascending: (strand, segment) pairs.
std::vector<std::pair<int, int>> RoundRobin(const std::vector<Strand>& strands);

// The operations in that order; within a segment: chain, collective, filler.
std::vector<int> Weave(const std::vector<Strand>& strands,
                       const std::vector<std::pair<int, int>>& order);

}  // namespace stretto
