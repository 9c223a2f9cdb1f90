// SPDX-License-Identifier: Apache-2.0

// The times of items on lanes. Of what was played, a front keeps only what can still matter: when
// each lane is free, and the ends of operations that another lane has to wait for. An end before
// all other lanes are free delays nothing, so it is forgotten, and more fronts become comparable.

#include "worker/engine/schedule/search/cell_items.h"

#include <algorithm>
#include <limits>

#include "proto/base/check.h"

namespace stretto {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

size_t Number(Queue queue) { return static_cast<size_t>(queue); }

// Returns, for each item of a queue, the time from its start to the end of the queue if no other
// used the lanes: the longest path over dependencies and lanes. And for each lane, the time behind
// the queue's last operation there.
std::vector<double> TailsOf(const CellItems& cell, const std::vector<CellItem>& items,
                            std::vector<double>* behind_last) {
  std::vector<double> tails(items.size() + 1, 0);
  std::vector<double> lane(static_cast<size_t>(cell.lanes), 0);  // from its next operation on
  behind_last->assign(lane.size(), kInfinite);
  std::vector<double> needed(cell.ops.size(), 0);  // from the first that needs the operation
  for (size_t i = items.size(); i-- > 0;) {
    for (int op = items[i].end; op-- > items[i].begin;) {
      const CellOp& at = cell.ops[static_cast<size_t>(op)];
      double& path = lane[static_cast<size_t>(at.lane)];
      double& behind = (*behind_last)[static_cast<size_t>(at.lane)];
      if (behind == kInfinite) behind = needed[static_cast<size_t>(op)];
      path = at.seconds + std::max(path, needed[static_cast<size_t>(op)]);
      for (int earlier : at.after) {
        double& of = needed[static_cast<size_t>(earlier)];
        of = std::max(of, path);
      }
      tails[i] = path;  // of its first operation, in the end
    }
  }
  return tails;
}

}  // namespace

CellPlayer::CellPlayer(const CellItems& cell) : cell_(cell), used_(cell.ops.size()) {
  const auto lanes = static_cast<size_t>(cell.lanes);
  for (Queue queue : kEveryQueue) {
    const size_t q = Number(queue);
    const std::vector<CellItem>& items = cell.queues[q];
    left_[q].assign((items.size() + 1) * lanes, 0);
    for (size_t i = items.size(); i-- > 0;) {
      for (size_t lane = 0; lane < lanes; ++lane)
        left_[q][i * lanes + lane] = left_[q][(i + 1) * lanes + lane];
      for (int op = items[i].begin; op < items[i].end; ++op) {
        const CellOp& at = cell.ops[static_cast<size_t>(op)];
        left_[q][i * lanes + static_cast<size_t>(at.lane)] += at.seconds;
        for (int earlier : at.after) {
          int& last = used_[static_cast<size_t>(earlier)][q];
          last = std::max(last, static_cast<int>(i) + 1);
        }
      }
    }
    tail_[q] = TailsOf(cell, items, &behind_last_[q]);
  }
}

Front CellPlayer::Start() const {
  Front front;
  front.free.assign(static_cast<size_t>(cell_.lanes), 0);
  return front;
}

bool CellPlayer::MayPlay(Queue queue, const Front& front) const {
  const std::vector<CellItem>& items = cell_.queues[Number(queue)];
  const auto next = static_cast<size_t>(front.at[Number(queue)]);
  if (next == items.size()) return false;
  for (size_t q = 0; q < kQueues; ++q) {
    if (front.at[q] < items[next].behind[q]) return false;
  }
  return true;
}

double CellPlayer::OthersFree(int lane, const Front& front) const {
  double free = kInfinite;
  for (int other = 0; other < cell_.lanes; ++other) {
    if (other != lane) free = std::min(free, front.free[static_cast<size_t>(other)]);
  }
  return free;
}

void CellPlayer::Play(Queue queue, Front* front) const {
  const size_t q = Number(queue);
  const CellItem& item = cell_.queues[q][static_cast<size_t>(front->at[q])];
  for (int op = item.begin; op < item.end; ++op) {
    const CellOp& at = cell_.ops[static_cast<size_t>(op)];
    double& free = front->free[static_cast<size_t>(at.lane)];
    for (int earlier : at.after) {
      for (const Front::Pending& pending : front->pending) {
        if (pending.op == earlier) free = std::max(free, pending.end);
      }
    }
    free += at.seconds;
    front->pending.push_back({op, free});
  }
  ++front->at[q];
  const auto settled = [&](const Front::Pending& pending) {
    const auto op = static_cast<size_t>(pending.op);
    bool needed = false;
    for (size_t r = 0; r < kQueues; ++r) needed = needed || used_[op][r] > front->at[r];
    return !needed || pending.end <= OthersFree(cell_.ops[op].lane, *front);
  };
  front->pending.erase(std::remove_if(front->pending.begin(), front->pending.end(), settled),
                       front->pending.end());
}

bool CellPlayer::IsNoLater(const Front& a, const Front& b) const {
  for (size_t lane = 0; lane < a.free.size(); ++lane) {
    if (a.free[lane] > b.free[lane]) return false;
  }
  return std::all_of(a.pending.begin(), a.pending.end(), [&](const Front::Pending& mine) {
    // What `b` has forgotten ended before its other lanes are free.
    double end = OthersFree(cell_.ops[static_cast<size_t>(mine.op)].lane, b);
    for (const Front::Pending& other : b.pending) {
      if (other.op == mine.op) end = std::max(end, other.end);
    }
    return mine.end <= end;
  });
}

double CellPlayer::UnevennessOf(const Front& front) const {
  double least = 1, most = 0;  // of what is left
  for (size_t q = 0; q < Number(Queue::kNext); ++q) {
    const double all = left_[q][0];
    if (all == 0) continue;
    const size_t next = static_cast<size_t>(front.at[q]) * static_cast<size_t>(cell_.lanes);
    least = std::min(least, left_[q][next] / all);
    most = std::max(most, left_[q][next] / all);
  }
  return std::max(0.0, most - least);
}

CellPlayer::Bound CellPlayer::BoundOf(const Front& front) const {
  Bound bound = {.seconds = 0, .unevenness = UnevennessOf(front)};
  const auto lanes = static_cast<size_t>(cell_.lanes);
  for (size_t lane = 0; lane < lanes; ++lane) {
    double end = front.free[lane], behind = kInfinite;
    for (size_t q = 0; q < kQueues; ++q) {
      const double left = left_[q][static_cast<size_t>(front.at[q]) * lanes + lane];
      end += left;
      if (left > 0) behind = std::min(behind, behind_last_[q][lane]);
    }
    bound.seconds = std::max(bound.seconds, end + (behind == kInfinite ? 0 : behind));
  }
  for (size_t q = 0; q < kQueues; ++q) {
    const auto next = static_cast<size_t>(front.at[q]);
    if (next == cell_.queues[q].size()) continue;
    const CellOp& first = cell_.ops[static_cast<size_t>(cell_.queues[q][next].begin)];
    double start = front.free[static_cast<size_t>(first.lane)];
    for (const Front::Pending& pending : front.pending) {
      const bool needed =
          std::find(first.after.begin(), first.after.end(), pending.op) != first.after.end();
      if (needed) start = std::max(start, pending.end);
    }
    bound.seconds = std::max(bound.seconds, start + tail_[q][next]);
  }
  return bound;
}

double CellPlayer::SecondsOf(const Merge& merge) const {
  Front front = Start();
  for (Queue queue : merge) {
    if (!MayPlay(queue, front)) return -1;
    Play(queue, &front);
  }
  return merge.size() == cell_.items() ? EndOf(front) : -1;
}

Merge WithNextPlaced(const CellItems& cell, const Merge& order) {
  const CellPlayer player(cell);
  Merge rest = order, best = order;
  rest.erase(std::remove(rest.begin(), rest.end(), Queue::kNext), rest.end());
  double least = player.SecondsOf(order);
  if (rest.size() == order.size() || least < 0) return order;
  PerQueue<size_t> at = {};
  for (size_t place = 0; place < rest.size(); ++place) {
    Merge placed = rest;
    if (place > 0) {
      const size_t q = Number(rest[place - 1]);
      const CellItem& before = cell.queues[q][at[q]++];
      if (cell.ops[static_cast<size_t>(before.end - 1)].lane == 0) continue;
    }
    placed.insert(placed.begin() + static_cast<std::ptrdiff_t>(place), order.size() - rest.size(),
                  Queue::kNext);
    const double seconds = player.SecondsOf(placed);
    if (seconds < 0) break;  // the others wait for it
    if (seconds > least) continue;
    least = seconds;
    best = std::move(placed);
  }
  return best;
}

double EndOf(const Front& front) { return *std::max_element(front.free.begin(), front.free.end()); }

namespace {

// Lowers the times at which lanes can begin to those of one queue that has the lanes for itself.
void BeginWith(const CellItems& cell, const std::vector<CellItem>& items,
               absl::InlinedVector<double, 4>* begins) {
  std::vector<double> free(static_cast<size_t>(cell.lanes), 0), ends(cell.ops.size(), 0);
  for (const CellItem& item : items) {
    for (auto op = static_cast<size_t>(item.begin); op < static_cast<size_t>(item.end); ++op) {
      const auto lane = static_cast<size_t>(cell.ops[op].lane);
      double start = free[lane];
      for (int earlier : cell.ops[op].after)
        start = std::max(start, ends[static_cast<size_t>(earlier)]);
      (*begins)[lane] = std::min((*begins)[lane], start);
      free[lane] = ends[op] = start + cell.ops[op].seconds;
    }
  }
}

}  // namespace

double LowerBound(const CellItems& cell) {
  const CellPlayer player(cell);
  Front front = player.Start();
  std::fill(front.free.begin(), front.free.end(), kInfinite);
  for (const std::vector<CellItem>& items : cell.queues) BeginWith(cell, items, &front.free);
  for (double& free : front.free) free = free == kInfinite ? 0 : free;
  return player.BoundOf(front).seconds;
}

}  // namespace stretto
