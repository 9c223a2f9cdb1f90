#include "worker/engine/program/happens_before.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_cat.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// Previous operation on the same lane, or -1.
std::vector<int> PreviousOnLane(const Program& program) {
  std::vector<int> last(program.lanes.size(), -1), previous(program.ops.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    int& lane_last = last[static_cast<size_t>(program.ops[i].lane)];
    previous[i] = lane_last;
    lane_last = static_cast<int>(i);
  }
  return previous;
}

absl::Status CycleError(const Program& program, const std::vector<int>& pending) {
  std::string members;
  int named = 0;
  for (size_t i = 0; i < pending.size() && named < 4; ++i) {
    if (pending[i] == 0) continue;
    absl::StrAppend(&members, named++ ? "; " : "", PrintOp(program, static_cast<int>(i)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cycle: lane order and waits contradict each other, starting with: ", members));
}

}  // namespace

absl::StatusOr<HappensBefore> HappensBefore::Build(const Program& program) {
  const size_t n = program.ops.size();
  HappensBefore result;
  result.lanes_ = program.lanes.size();
  result.lane_.resize(n);
  result.position_.resize(n);
  result.clocks_.assign(n * result.lanes_, 0);

  const std::vector<int> previous = PreviousOnLane(program);
  std::vector<int> pending(n, 0);
  std::vector<std::vector<int>> next(n);
  for (size_t i = 0; i < n; ++i) {
    result.lane_[i] = program.ops[i].lane;
    result.position_[i] =
        previous[i] < 0 ? 0 : result.position_[static_cast<size_t>(previous[i])] + 1;
    auto add = [&](int from) {
      next[static_cast<size_t>(from)].push_back(static_cast<int>(i));
      ++pending[i];
    };
    if (previous[i] >= 0) add(previous[i]);
    for (int wait : program.ops[i].waits) {
      if (wait < 0 || wait >= static_cast<int>(n) || wait == static_cast<int>(i)) {
        return absl::InvalidArgumentError(
            absl::StrCat("operation ", PrintOp(program, static_cast<int>(i)), ": wait on ", wait,
                         ", expected another operation below ", n));
      }
      add(wait);
    }
  }

  std::deque<int> ready;
  for (size_t i = 0; i < n; ++i) {
    if (pending[i] == 0) ready.push_back(static_cast<int>(i));
  }
  while (!ready.empty()) {
    const int op = ready.front();
    ready.pop_front();
    result.order_.push_back(op);
    int* clock = &result.clocks_[static_cast<size_t>(op) * result.lanes_];
    auto merge = [&](int from) {
      const int* other = result.clock(from);
      for (size_t lane = 0; lane < result.lanes_; ++lane)
        clock[lane] = std::max(clock[lane], other[lane]);
    };
    if (previous[static_cast<size_t>(op)] >= 0) merge(previous[static_cast<size_t>(op)]);
    for (int wait : program.ops[static_cast<size_t>(op)].waits) merge(wait);
    clock[program.ops[static_cast<size_t>(op)].lane] = result.position(op) + 1;
    for (int follower : next[static_cast<size_t>(op)]) {
      if (--pending[static_cast<size_t>(follower)] == 0) ready.push_back(follower);
    }
  }
  if (result.order_.size() < n) return CycleError(program, pending);
  return result;
}

}  // namespace stretto
