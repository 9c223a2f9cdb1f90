// SPDX-License-Identifier: Apache-2.0

// Executes the lanes symbolically to find an order, or a cycle. The clock of an operation is the
// element-wise maximum of the clocks of the operation before it on its lane and of those it waits
// for, and then counts the operation itself. Operation a comes before b if b's clock counts more
// operations of a's lane than a's position.

#include "worker/engine/program/happens_before.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// Returns the operations of every lane, ascending.
IdVector<LaneId, std::vector<OpId>> LanesOf(const Program& program) {
  IdVector<LaneId, std::vector<OpId>> lanes(program.lanes.size());
  for (OpId op : program.ops.ids()) lanes[program.ops[op].lane].push_back(op);
  return lanes;
}

absl::Status CheckWaits(const Program& program) {
  for (OpId op : program.ops.ids()) {
    for (OpId wait : program.ops[op].waits) {
      if (program.ops.Has(wait) && wait != op) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("operation ", PrintOp(program, op), ": wait on ", wait.value(),
                       ", expected another operation below ", program.ops.size()));
    }
  }
  return absl::OkStatus();
}

// The next operation of each lane. Next() executes the earliest one whose waits are done.
class LaneHeads {
 public:
  explicit LaneHeads(const Program& program)
      : program_(program),
        lanes_(LanesOf(program)),
        head_(lanes_.size(), 0),
        done_(program.ops.size(), 0) {}

  // Returns the operation that was executed, or -1 if none is left or none is ready.
  OpId Next() {
    OpId next = -1;
    for (LaneId lane : lanes_.ids()) {
      if (head_[lane] == lanes_[lane].size()) continue;
      const OpId op = lanes_[lane][head_[lane]];
      if ((next < 0 || op < next) && Ready(op)) next = op;
    }
    if (next < 0) return next;
    ++head_[program_.ops[next].lane];
    done_[next] = 1;
    return next;
  }
  // Reports the operations at the heads of lanes that wait for each other in a circle, and no
  // others. Call it after Next() returned -1 with operations left.
  absl::Status CycleError() const {
    std::vector<OpId> path;  // each is held up by the next
    // Every head is blocked, so following the blocking head visits one of them twice; the path from
    // there on is the cycle.
    OpId op = FirstLeft();
    while (std::find(path.begin(), path.end(), op) == path.end()) {
      path.push_back(op);
      op = HeldUpBy(op);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), op));
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    return absl::InvalidArgumentError(
        absl::StrCat("cycle: lane order and waits contradict each other, starting with: ",
                     absl::StrJoin(path, "; ", [this](std::string* out, OpId member) {
                       absl::StrAppend(out, PrintOp(program_, member));
                     })));
  }

 private:
  bool Ready(OpId op) const {
    for (OpId wait : program_.ops[op].waits) {
      if (!done_[wait]) return false;
    }
    return true;
  }

  OpId Head(LaneId lane) const { return lanes_[lane][head_[lane]]; }
  OpId FirstLeft() const {
    LaneId lane = 0;
    while (head_[lane] == lanes_[lane].size()) ++lane;
    return Head(lane);
  }
  // Returns the head of the lane that executes the first unfinished operation that `op` waits for.
  OpId HeldUpBy(OpId op) const {
    for (OpId wait : program_.ops[op].waits) {
      if (!done_[wait]) return Head(program_.ops[wait].lane);
    }
    return op;
  }

  const Program& program_;
  const IdVector<LaneId, std::vector<OpId>> lanes_;
  IdVector<LaneId, size_t> head_;
  IdVector<OpId, char> done_;
};

}  // namespace

absl::StatusOr<HappensBefore> HappensBefore::Build(const Program& program) {
  RETURN_IF_ERROR(CheckWaits(program));
  const size_t n = program.ops.size();
  HappensBefore result;
  result.lanes_ = program.lanes.size();
  result.lane_.resize(n);
  result.position_.resize(n);
  result.order_.reserve(n);
  result.clocks_.assign(n * result.lanes_, 0);

  LaneHeads heads(program);
  std::vector<int> now(result.lanes_ * result.lanes_, 0);  // the clock of each lane's last
  for (OpId op = heads.Next(); op >= 0; op = heads.Next()) {
    const size_t lane = program.ops[op].lane.position();
    int* clock = &now[lane * result.lanes_];
    for (OpId wait : program.ops[op].waits) {
      const int* other = result.clock(wait);
      for (size_t l = 0; l < result.lanes_; ++l) clock[l] = std::max(clock[l], other[l]);
    }
    result.lane_[op] = program.ops[op].lane;
    result.position_[op] = clock[lane]++;
    std::copy_n(clock, result.lanes_, &result.clocks_[op.position() * result.lanes_]);
    result.order_.push_back(op);
  }
  if (result.order_.size() < n) return heads.CycleError();
  return result;
}

FirstAfter::FirstAfter(const Program& program, const HappensBefore& order)
    : lanes_(program.lanes.size()), first_(program.ops.size() * lanes_, kNever) {
  const IdVector<LaneId, std::vector<OpId>> lanes = LanesOf(program);
  std::vector<int> known(lanes_ * lanes_, 0);  // [lane][other]: how much of other is before it
  for (OpId op : order.order()) {
    const LaneId lane = program.ops[op].lane;
    for (LaneId other : lanes.ids()) {
      const int before = order.clock(op)[other.position()] - (other == lane ? 1 : 0);
      // Walked in execution order, the first operation of `lane` whose clock counts the operation
      // `at` of `other` is the first that starts after it.
      for (int& at = known[lane.position() * lanes_ + other.position()]; at < before; ++at) {
        first_[lanes[other][at].position() * lanes_ + lane.position()] = op;
      }
    }
  }
}

}  // namespace stretto
