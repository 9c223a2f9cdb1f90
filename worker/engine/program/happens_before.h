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
  bool Before(int first, int second) const {
    return first != second &&
           clock(second)[static_cast<size_t>(lane_[static_cast<size_t>(first)])] >
               position_[static_cast<size_t>(first)];
  }
  // Position within its lane.
  int position(int op) const { return position_[static_cast<size_t>(op)]; }
  // Per lane, how many of its operations come before `op` (on op's own lane: itself included).
  const int* clock(int op) const { return &clocks_[static_cast<size_t>(op) * lanes_]; }
  // One order in which the program may run; a linear extension of "before". That of the program
  // where no operation waits for a later one.
  const std::vector<int>& order() const { return order_; }

 private:
  size_t lanes_ = 0;
  std::vector<int> lane_, position_, order_;
  std::vector<int> clocks_;
};

// The clocks read the other way: per operation and lane, the lane's first operation that starts
// after it has completed. All that follow on that lane do too.
class FirstAfter {
 public:
  static constexpr int kNever = std::numeric_limits<int>::max();

  FirstAfter(const Program& program, const HappensBefore& order);

  // Per lane an index into the program, or kNever. Before(op, x) == (of(op)[lane of x] <= x).
  const int* of(int op) const { return &first_[static_cast<size_t>(op) * lanes_]; }

 private:
  size_t lanes_;
  std::vector<int> first_;
};

}  // namespace stretto
