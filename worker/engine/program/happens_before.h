// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which operations of a program are ordered: vector clocks over lanes (Lamport 1978; Mattern 1988).
// Ordered means: same lane and earlier, or connected through lane order and waits.

#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/program/program.h"

namespace stretto {

class HappensBefore {
 public:
  // InvalidArgument: a wait names no operation, or lane order and waits form a cycle (its members
  // are named).
  static absl::StatusOr<HappensBefore> Build(const Program& program);

  // True when `first` has completed before `second` starts in every execution.
  bool Before(OpId first, OpId second) const {
    return first != second && clock(second)[lane_[first].position()] > position_[first];
  }
  // Position within its lane.
  int position(OpId op) const { return position_[op]; }
  // Per lane, how many of its operations come before `op` (on op's own lane: itself included).
  const int* clock(OpId op) const { return &clocks_[op.position() * lanes_]; }
  // One order in which the program may run; a linear extension of "before". That of the program
  // where no operation waits for a later one.
  const std::vector<OpId>& order() const { return order_; }

 private:
  size_t lanes_ = 0;
  IdVector<OpId, LaneId> lane_;
  IdVector<OpId, int> position_;
  std::vector<OpId> order_;
  std::vector<int> clocks_;
};

// The clocks read the other way: per operation and lane, the lane's first operation that starts
// after it has completed. All that follow on that lane do too.
class FirstAfter {
 public:
  static constexpr OpId kNever = std::numeric_limits<int>::max();

  FirstAfter(const Program& program, const HappensBefore& order);

  // Per lane an index into the program, or kNever. Before(op, x) == (of(op)[lane of x] <= x).
  const OpId* of(OpId op) const { return &first_[op.position() * lanes_]; }

 private:
  size_t lanes_;
  std::vector<OpId> first_;
};

}  // namespace stretto
