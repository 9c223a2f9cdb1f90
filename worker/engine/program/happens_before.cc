// Runs the lanes against each other to find an order, or a cycle. The clock of an operation is the
// maximum of the clocks of the operation before it on its lane and of those it waits for, plus
// itself; operation a is before b when b's clock covers a's position on a's lane.

#include "worker/engine/program/happens_before.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// The operations of every lane, ascending.
std::vector<std::vector<int>> LanesOf(const Program& program) {
  std::vector<std::vector<int>> lanes(program.lanes.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    lanes[static_cast<size_t>(program.ops[i].lane)].push_back(static_cast<int>(i));
  }
  return lanes;
}

absl::Status CheckWaits(const Program& program) {
  const int n = static_cast<int>(program.ops.size());
  for (int i = 0; i < n; ++i) {
    for (int wait : program.ops[static_cast<size_t>(i)].waits) {
      if (wait >= 0 && wait < n && wait != i) continue;
      return absl::InvalidArgumentError(absl::StrCat("operation ", PrintOp(program, i),
                                                     ": wait on ", wait,
                                                     ", expected another operation below ", n));
    }
  }
  return absl::OkStatus();
}

// Runs the lanes against each other, always the earliest operation that can go.
class LaneHeads {
 public:
  explicit LaneHeads(const Program& program)
      : program_(program),
        lanes_(LanesOf(program)),
        head_(lanes_.size(), 0),
        done_(program.ops.size(), 0) {}

  // -1: none is left, or none can go.
  int Next() {
    int next = -1;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (head_[lane] == lanes_[lane].size()) continue;
      const int op = lanes_[lane][head_[lane]];
      if ((next < 0 || op < next) && Ready(op)) next = op;
    }
    if (next < 0) return next;
    ++head_[static_cast<size_t>(program_.ops[static_cast<size_t>(next)].lane)];
    done_[static_cast<size_t>(next)] = 1;
    return next;
  }
  // After Next() found none with some left: the operations at the heads of lanes that hold each
  // other up, and no others.
  absl::Status CycleError() const {
    std::vector<int> path;  // each is held up by the next
    int op = FirstLeft();
    while (std::find(path.begin(), path.end(), op) == path.end()) {
      path.push_back(op);
      op = HeldUpBy(op);
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), op));
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    return absl::InvalidArgumentError(
        absl::StrCat("cycle: lane order and waits contradict each other, starting with: ",
                     absl::StrJoin(path, "; ", [this](std::string* out, int member) {
                       absl::StrAppend(out, PrintOp(program_, member));
                     })));
  }

 private:
  bool Ready(int op) const {
    for (int wait : program_.ops[static_cast<size_t>(op)].waits) {
      if (!done_[static_cast<size_t>(wait)]) return false;
    }
    return true;
  }

  int Head(size_t lane) const { return lanes_[lane][head_[lane]]; }
  int FirstLeft() const {
    size_t lane = 0;
    while (head_[lane] == lanes_[lane].size()) ++lane;
    return Head(lane);
  }
  // The head of the lane whose operation a head waits for.
  int HeldUpBy(int op) const {
    for (int wait : program_.ops[static_cast<size_t>(op)].waits) {
      if (!done_[static_cast<size_t>(wait)])
        return Head(static_cast<size_t>(program_.ops[static_cast<size_t>(wait)].lane));
    }
    return op;
  }

  const Program& program_;
  const std::vector<std::vector<int>> lanes_;
  std::vector<size_t> head_;
  std::vector<char> done_;
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
  for (int next = heads.Next(); next >= 0; next = heads.Next()) {
    const size_t op = static_cast<size_t>(next);
    const size_t lane = static_cast<size_t>(program.ops[op].lane);
    int* clock = &now[lane * result.lanes_];
    for (int wait : program.ops[op].waits) {
      const int* other = result.clock(wait);
      for (size_t l = 0; l < result.lanes_; ++l) clock[l] = std::max(clock[l], other[l]);
    }
    result.lane_[op] = static_cast<int>(lane);
    result.position_[op] = clock[lane]++;
    std::copy_n(clock, result.lanes_, &result.clocks_[op * result.lanes_]);
    result.order_.push_back(next);
  }
  if (result.order_.size() < n) return heads.CycleError();
  return result;
}

FirstAfter::FirstAfter(const Program& program, const HappensBefore& order)
    : lanes_(program.lanes.size()), first_(program.ops.size() * lanes_, kNever) {
  const std::vector<std::vector<int>> lanes = LanesOf(program);
  std::vector<int> known(lanes_ * lanes_, 0);  // [lane][other]: how much of other is before it
  for (int op : order.order()) {
    const size_t lane = static_cast<size_t>(program.ops[static_cast<size_t>(op)].lane);
    for (size_t other = 0; other < lanes_; ++other) {
      const int before = order.clock(op)[other] - (other == lane ? 1 : 0);
      for (int& at = known[lane * lanes_ + other]; at < before; ++at) {
        const size_t earlier = static_cast<size_t>(lanes[other][static_cast<size_t>(at)]);
        first_[earlier * lanes_ + lane] = op;
      }
    }
  }
}

}  // namespace stretto
