// SPDX-License-Identifier: Apache-2.0
#pragma once
// The choice of a sender for each move and of an order for all: a multiprocessor open shop without
// preemption, on the interfaces of nodes.

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace stretto {

// A move occupies its sender's node and all its receivers' nodes for `seconds`. If the sender's
// node is the only receiver's, it occupies nothing.
struct Move {
  double seconds = 0;
  std::vector<int> senders;    // nodes to choose from, ascending; at least one
  std::vector<int> receivers;  // nodes, ascending; at least one
};

struct MoveOrder {
  std::vector<size_t> order;  // of moves
  std::vector<int> sender;    // node, by move
  double makespan = 0;        // when all of them are done, in that order
  double bound = 0;           // no order and no choice of senders takes less
};

// Up to eight moves are searched exactly, within a limit on the search that depends on nothing but
// the moves. More are placed greedily. Without `reorders` the moves keep their order.
// Deterministic.
MoveOrder OrderMoves(absl::Span<const Move> moves, int nodes, bool reorders = true);

}  // namespace stretto
