// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order of a program's operations, as vector clocks over lanes (Lamport 1978; Mattern 1988). An
// operation comes before another if it is earlier on the same lane, or if lane order and waits
// connect the two.

#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/program/program.h"

namespace stretto {

class HappensBefore {
 public:
  // Errors: InvalidArgument, when a wait refers to no operation, or when lane order and waits form
  // a cycle; the message names the members of the cycle.
  static absl::StatusOr<HappensBefore> Build(const Program& program);

  // Whether `first` completes before `second` starts in every execution.
  bool Before(OpId first, OpId second) const {
    return first != second && clock(second)[lane_[first].position()] > position_[first];
  }
  // Returns the position of `op` within its lane.
  int position(OpId op) const { return position_[op]; }
  // Returns, for each lane, how many of its operations come before `op`. The count of op's own lane
  // includes `op`.
  const int* clock(OpId op) const { return &clocks_[op.position() * lanes_]; }
  // Returns one order in which the program may run, a linear extension of Before. It is program
  // order if no operation waits for a later one.
  const std::vector<OpId>& order() const { return order_; }

 private:
  size_t lanes_ = 0;
  IdVector<OpId, LaneId> lane_;
  IdVector<OpId, int> position_;
  std::vector<OpId> order_;
  std::vector<int> clocks_;
};

// The inverse of the clocks: for each operation and lane, the first operation of that lane that
// starts after the operation has completed. All later operations of that lane do so too.
class FirstAfter {
 public:
  static constexpr OpId kNever = std::numeric_limits<int>::max();

  FirstAfter(const Program& program, const HappensBefore& order);

  // Returns, for each lane, an index into the program or kNever.
  // Before(op, x) == (of(op)[lane of x] <= x).
  const OpId* of(OpId op) const { return &first_[op.position() * lanes_]; }

 private:
  size_t lanes_;
  std::vector<OpId> first_;
};

}  // namespace stretto
