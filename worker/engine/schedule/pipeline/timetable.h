// SPDX-License-Identifier: Apache-2.0
#pragma once
// Timetables: the cells of a step, in their order. A strand is a pass of a micro-batch through a
// chunk (Turn). A cell is one strand, or two strands of different micro-batches that are woven
// (worker/engine/schedule/helix.cc).

#include <vector>

#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

using Cell = std::vector<Turn>;

struct Timetable {
  std::vector<Cell> cells;
  // As Repeat of a step, in cells.
  int begin = 0, end = 0, period = 1, stride = 1;
};

// Each pass is a cell.
Timetable OneByOne(const PipelineOrder& order);

// The first forward pass, then pairs of a forward pass and the backward pass of the micro-batch
// before (Wang et al. 2024, "DHelix"), then the last backward pass:
//
//   f(0) | f(1) b(0) | f(2) b(1) | ... | b(M-1)
//
// Two micro-batches are in flight.
Timetable HelixOf(int micro_batches);

}  // namespace stretto
