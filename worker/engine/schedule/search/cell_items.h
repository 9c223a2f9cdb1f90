// SPDX-License-Identifier: Apache-2.0
#pragma once
// A woven cell as a problem of its own: queues of items that share the lanes of a rank.
//
// The queues are forward, backward up to the gradients of activations, the weight gradients, which
// fill what the other two leave, and the embedding of the next micro-batch, which waits for
// nothing. Each queue keeps its order; a plan is a merge of them.
// An item is what one word of a weave plan plays. Its operations run on the lanes of their own, and
// a lane runs what it is given one after the other. An operation begins when its lane is free and
// the operations of other lanes that it needs are done. What operations take from each other while
// they run at once is in a cell, but only blocks know it (block_plan.h).

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "worker/engine/cost/contention.h"

namespace stretto {

enum class Queue : uint8_t { kForward, kBackward, kWeights, kNext };
inline constexpr int kQueues = 4;
inline constexpr Queue kEveryQueue[] = {Queue::kForward, Queue::kBackward, Queue::kWeights,
                                        Queue::kNext};
template <class T>
using PerQueue = std::array<T, kQueues>;

struct CellOp {
  int lane = 0;                 // 0 computes, the others communicate
  double seconds = 0;           // finite and not negative
  std::vector<int> after = {};  // operations of other lanes, as indices of CellItems::ops
  // Of a computation, a row of CellItems::together; of a collective, a column.
  int kind = 0;
};

struct CellItem {
  int begin = 0, end = 0;     // its operations, as indices of CellItems::ops
  PerQueue<int> behind = {};  // the number of items of each queue that must be played before
};

struct CellItems {
  int lanes = 1;
  std::vector<CellOp> ops;
  PerQueue<std::vector<CellItem>> queues;
  // What a computation and a collective take from each other. Empty: nothing.
  std::vector<std::vector<Contention>> together = {};

  size_t items() const {
    size_t count = 0;
    for (const std::vector<CellItem>& queue : queues) count += queue.size();
    return count;
  }
};

// The order of a cell: whose next item is played.
using Merge = std::vector<Queue>;

struct CellPlan {
  Merge order;
  // Where both strands wait for each other, as numbers of items played before; blocks alone have
  // them.
  std::vector<size_t> barriers = {};
  double seconds = 0;  // from the start of the cell to its end
  bool exact = true;   // no order of its kind is shorter
};

// Returns a time that no merge can beat: the longest of each queue if it had the lanes for itself,
// and of what each lane has to do, with the shortest way of a queue to its first operation there
// and from its last one to the end.
double LowerBound(const CellItems& cell);

// The state of a cell of which some items were played.
struct Front {
  struct Pending {
    int op = 0;
    double end = 0;
    bool operator==(const Pending&) const = default;
  };
  PerQueue<int> at = {};                    // items played
  absl::InlinedVector<double, 4> free;      // by lane: when it has done all that it was given
  absl::InlinedVector<Pending, 8> pending;  // ends that may yet delay an operation of another lane
};

// Plays the items of a cell. Borrows the cell.
class CellPlayer {
 public:
  explicit CellPlayer(const CellItems& cell);

  Front Start() const;
  // Whether the queue has an item left, and what must be played before it was.
  bool MayPlay(Queue queue, const Front& front) const;
  // Plays the next item of a queue, which may be played.
  void Play(Queue queue, Front* front) const;

  // Whether every way to continue from `b` takes at least as long as the same way from `a`. Both
  // have played the same items.
  bool IsNoLater(const Front& a, const Front& b) const;
  // A time before which nothing that continues from `front` can end: the latest of the earliest
  // ends of the queues, and of the lanes with what has to follow. And how unevenly the queues of
  // the two passes have come forward: the difference between the largest and the smallest share of
  // computation done. What is left of one when the others have ended hides nothing any more.
  struct Bound {
    double seconds = 0, unevenness = 0;
  };
  Bound BoundOf(const Front& front) const;

  // Plays a whole merge and returns its time; -1 if the cell does not allow it.
  double SecondsOf(const Merge& merge) const;

 private:
  double OthersFree(int lane, const Front& front) const;
  double UnevennessOf(const Front& front) const;

  const CellItems& cell_;
  std::vector<PerQueue<int>> used_;     // by operation: items after the last that needs it
  PerQueue<std::vector<double>> left_;  // [queue][item * lanes + lane]: seconds from it on
  PerQueue<std::vector<double>> tail_;  // [queue][item]: the queue alone, from it on
  // [queue][lane]: the queue alone, behind its last operation on the lane.
  PerQueue<std::vector<double>> behind_last_;
};

// Returns the order with the embedding of the next micro-batch at the place, behind a collective or
// at the begin, where the order takes the least time, and of several the last one: what it computes
// is in memory from there on.
Merge WithNextPlaced(const CellItems& cell, const Merge& order);

// The end of a front: when all that was played is done.
double EndOf(const Front& front);

}  // namespace stretto
