// SPDX-License-Identifier: Apache-2.0
#pragma once
// The shortest order of a small cell in blocks with barriers, by brute force.

#include <algorithm>
#include <limits>
#include <vector>

#include "worker/engine/schedule/search/cell_items.h"

namespace stretto {

// Plays every sequence of blocks as block_plan.h defines them, operation by operation. For cells
// without an embedding of the next micro-batch, whose items compute before they communicate.
class EveryBlocks {
 public:
  EveryBlocks(const CellItems& cell, int most_items)
      : cell_(cell),
        most_items_(most_items),
        left_(cell.ops.size(), kNotYet),
        turn_(cell.ops.size(), kNotYet) {
    Try(0);
  }
  double shortest() const { return shortest_; }

 private:
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();
  static constexpr size_t kSegments = 3;  // forward, backward, weight gradients

  const CellOp& OpAt(int op) const { return cell_.ops[static_cast<size_t>(op)]; }
  const CellItem& ItemAt(size_t q, int i) const { return cell_.queues[q][static_cast<size_t>(i)]; }

  // All blocks before end at `start`; the collectives in `flying_` belong to the next one.
  void Try(double start) {
    bool done = flying_.empty();
    for (size_t q = 0; q < kSegments; ++q)
      done = done && at_[q] == static_cast<int>(cell_.queues[q].size());
    if (done) shortest_ = std::min(shortest_, start);
    if (done || start >= shortest_) return;
    const PerQueue<int> from = at_;
    PerQueue<int> counts = {};
    for (counts[0] = 0; counts[0] <= MostOf(0, from); ++counts[0]) {
      for (counts[1] = 0; counts[1] <= MostOf(1, from); ++counts[1]) {
        for (counts[2] = 0; counts[2] <= MostOf(2, from); ++counts[2]) {
          if (counts[0] + counts[1] + counts[2] == 0 && flying_.empty()) continue;
          TryTurns(start, from, counts);
        }
      }
    }
  }
  int MostOf(size_t q, const PerQueue<int>& from) const {
    return std::min(most_items_, static_cast<int>(cell_.queues[q].size()) - from[q]);
  }

  void TryTurns(double start, const PerQueue<int>& from, const PerQueue<int>& counts) {
    const std::vector<int> flying = flying_;
    const std::vector<double> left = left_, turn = turn_;
    std::vector<size_t> turns;
    for (size_t q = 0; q < kSegments; ++q) {
      if (counts[q] > 0) turns.push_back(q);
    }
    do {
      at_ = from;
      const double end = Play(start, flying, counts, turns);
      if (end != kNotYet) Try(end);
      at_ = from;
      flying_ = flying;
      left_ = left;
      turn_ = turn;
    } while (std::next_permutation(turns.begin(), turns.end()));
  }

  // Returns the end of a block, kNotYet if its segments may not be played so.
  double Play(double start, const std::vector<int>& flying, const PerQueue<int>& counts,
              const std::vector<size_t>& turns) {
    double now = start;
    // Each on a lane of its own.
    for (int op : flying) left_[static_cast<size_t>(op)] = OpAt(op).seconds;
    flying_.clear();
    unsigned lanes = 0;
    for (size_t q : turns) {
      const int first = at_[q], last = at_[q] + counts[q];
      for (int i = first; i < last; ++i) {  // a segment begins when all of it may
        const CellItem& item = ItemAt(q, i);
        for (size_t r = 0; r < kSegments; ++r) {
          if (r != q && item.behind[r] > at_[r]) return kNotYet;
        }
        for (int op = item.begin; op < item.end; ++op) {
          for (int earlier : OpAt(op).after) {
            if (OpAt(earlier).lane == 0) continue;
            const double left = left_[static_cast<size_t>(earlier)];
            if (left == kNotYet) return kNotYet;
            now += Elapse(left, flying, nullptr);
          }
        }
      }
      for (int i = first; i < last; ++i) {
        for (int op = ItemAt(q, i).begin; op < ItemAt(q, i).end; ++op) {
          if (OpAt(op).lane == 0) {
            now += Compute(OpAt(op), flying);
            continue;
          }
          const unsigned lane = 1u << static_cast<unsigned>(OpAt(op).lane);
          if (i + 1 < last || (lanes & lane) != 0) return kNotYet;
          lanes |= lane;
          flying_.push_back(op);
        }
      }
      at_[q] = last;
    }
    double last = 0;
    for (int op : flying) last = std::max(last, left_[static_cast<size_t>(op)]);
    return now + Elapse(last, flying, nullptr);
  }

  // What the two lose of their rates while both run.
  Contention Together(const CellOp& computation, int collective) const {
    if (cell_.together.empty()) return {};
    return cell_.together[static_cast<size_t>(computation.kind)]
                         [static_cast<size_t>(OpAt(collective).kind)];
  }
  // Lets the collectives run for a time, beside a computation or none, and returns the time.
  double Elapse(double seconds, const std::vector<int>& flying, const CellOp* computation) {
    for (int op : flying) {
      double& turn = turn_[static_cast<size_t>(op)];
      if (computation == nullptr && seconds > 0) turn = 0;
      const bool waits = turn != kNotYet && turn > 0;
      const double lost = computation == nullptr ? 0 : Together(*computation, op).communication;
      double& left = waits ? turn : left_[static_cast<size_t>(op)];
      left = std::max(0.0, left - seconds * (waits ? 1 : 1 - lost));
      if (left < 1e-12) left = 0;
    }
    return seconds;
  }
  // Returns how long a computation takes: from one end of a collective, or of its wait for a turn,
  // to the next at one rate.
  double Compute(const CellOp& computation, const std::vector<int>& flying) {
    double work = computation.seconds, took = 0;
    while (work > 1e-12) {
      double lost = 0;
      for (int op : flying) {
        double& turn = turn_[static_cast<size_t>(op)];
        if (turn == kNotYet) turn = Together(computation, op).turn_seconds;
        if (left_[static_cast<size_t>(op)] > 0 && turn == 0)
          lost = std::max(lost, Together(computation, op).compute);
      }
      double seconds = work / (1 - lost);
      for (int op : flying) {
        const double left = left_[static_cast<size_t>(op)];
        if (left == 0) continue;
        const double turn = turn_[static_cast<size_t>(op)];
        seconds = std::min(seconds,
                           turn > 0 ? turn : left / (1 - Together(computation, op).communication));
      }
      took += Elapse(seconds, flying, &computation);
      work -= seconds * (1 - lost);
    }
    return took;
  }

  const CellItems& cell_;
  const int most_items_;
  PerQueue<int> at_ = {};
  std::vector<int> flying_;   // collectives that the next block begins with
  std::vector<double> left_;  // of collectives, in seconds alone; kNotYet before their block
  std::vector<double> turn_;  // what is left of the wait for it; kNotYet before something runs
  double shortest_ = std::numeric_limits<double>::infinity();
};

}  // namespace stretto
