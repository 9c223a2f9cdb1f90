// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shortest order of a cell in blocks with barriers, the form that was published (Wang et al.
// 2024, "DHelix"). It exists to be compared with EventPlan.

#include "absl/status/statusor.h"
#include "worker/engine/schedule/search/cell_items.h"

namespace stretto {

// The most items of one queue in a block. More of them change no plan of the models and links of
// LongerBlocksTest.AreNoShorter, and multiply the time of the search.
inline constexpr int kMostBlockItems = 8;

// The most states that are searched, of some 40 bytes each: a cell of about 16 layers in one slice.
inline constexpr size_t kMostBlockStates = size_t{1} << 24;

// The embedding of the next micro-batch is the first of forward.
//
// A block starts when all that came before is done. It begins with the collectives that ended the
// segment of a strand in the block before, at most one strand's on each lane. Then it computes a
// segment of each queue, up to `most_items` items in a row, in the best of the six orders. A
// segment waits for the collectives of its own strand, weight gradients for those that they need.
// Only the last item of a segment may end with collectives. An item that communicates and then
// computes has a block of its own. While a computation and collectives of a block run at once, all
// of them are as slow as `together` of the cell says; a computation as the collective that slows it
// down most. A collective that begins beside a computation first waits for its turn, as long as
// something computes.
//
// Exact, by dynamic programming over the items played, in time and memory proportional to the
// product of the lengths of the queues: for cells of a few layers. The time of the plan is that
// with barriers; without them, and where nothing contends, its order takes no longer. Errors:
// InvalidArgument, if no sequence of blocks plays all items, or there are too many states.
absl::StatusOr<CellPlan> BlockPlan(const CellItems& cell, int most_items = kMostBlockItems);

}  // namespace stretto
