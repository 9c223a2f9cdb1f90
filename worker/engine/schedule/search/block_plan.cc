// SPDX-License-Identifier: Apache-2.0

// Dynamic programming over states: the items played of each queue, and whether the last item of
// forward, and of backward, has collectives that the next block begins with. Every block leads to a
// later state, so states are finished in ascending order. Nothing runs across a barrier, so what a
// block takes depends on its state alone, also where computations and collectives contend.

#include "worker/engine/schedule/search/block_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kStrands = 2;   // forward and backward, whose collectives may be in flight
constexpr int kSegments = 3;  // and weight gradients
constexpr int kFlights = 1 << kStrands;

// An item as blocks see it.
struct BlockItem {
  double flight = 0;          // seconds of the collectives that it ends with
  int flight_kind = 0;        // of the last of these
  unsigned lanes = 0;         // of these, as bits
  bool mixed = false;         // it also communicates before
  PerQueue<int> behind = {};  // as of the cell
  // Of forward and backward, the items up to the last whose collectives it waits for.
  std::array<int, kStrands> lands = {};
};

// Computations of an item in a row that contend alike.
struct Piece {
  double seconds = 0;
  int kind = 0;
};

// What is left of the collectives of a strand that a block began with.
struct Flight {
  double left = 0;
  int kind = 0;
  // What is left of the wait for its turn; below 0 until something runs, which decides.
  double turn = -1;
};
using Flights = std::array<Flight, kStrands>;

struct State {
  double seconds = kNever;
  PerQueue<int> from = {};  // of the last block
  int flights_before = 0;
  std::array<int, kSegments> turns = {};  // the order of the queues in it
};

class Blocks {
 public:
  Blocks(const CellItems& cell, int most_items) : cell_(cell), most_items_(most_items) {
    std::vector<std::pair<int, int>> flight_of(cell.ops.size(), {-1, -1});  // queue, item
    for (int q = 0; q < kSegments; ++q) {
      for (const CellItem& item : cell.queues[Of(q)]) AddItem(q, item, &flight_of);
      first_piece_[Of(q)].push_back(pieces_[Of(q)].size());
      AddUp(q);
      size_[Of(q)] = static_cast<int>(items_[Of(q)].size());
    }
    for (int q = 0; q < kSegments; ++q) {
      for (size_t i = 0; i < items_[Of(q)].size(); ++i) {
        const CellItem& item = cell.queues[Of(q)][i];
        for (int op = item.begin; op < item.end; ++op) {
          for (int earlier : cell.ops[Of(op)].after) {
            const auto& [queue, at] = flight_of[Of(earlier)];
            const bool own = queue == q && at == static_cast<int>(i);
            if (queue < 0 || own) continue;
            int& lands = items_[Of(q)][i].lands[Of(queue)];
            lands = std::max(lands, at + 1);
          }
        }
      }
    }
    states_.resize(Of((size_[0] + 1) * (size_[1] + 1) * (size_[2] + 1) * kFlights));
  }

  absl::StatusOr<CellPlan> Solve() {
    states_[Number({}, 0)].seconds = 0;
    for (int i = 0; i <= size_[0]; ++i) {
      for (int j = 0; j <= size_[1]; ++j) {
        for (int k = 0; k <= size_[2]; ++k) {
          for (int flights = kFlights; flights-- > 0;) Continue({i, j, k}, flights);
        }
      }
    }
    return PlanTo(size_);
  }

 private:
  static size_t Of(int value) { return static_cast<size_t>(value); }

  void AddItem(int q, const CellItem& item, std::vector<std::pair<int, int>>* flight_of) {
    BlockItem block = {.behind = item.behind};
    int cut = item.end;
    const auto communicates = [&](int op) { return cell_.ops[Of(op)].lane > 0; };
    while (q < kStrands && cut > item.begin && communicates(cut - 1)) --cut;
    std::vector<Piece>& pieces = pieces_[Of(q)];
    first_piece_[Of(q)].push_back(pieces.size());
    for (int op = item.begin; op < item.end; ++op) {
      const CellOp& at = cell_.ops[Of(op)];
      if (op < cut) {
        // Nothing runs beside an item that communicates before its end.
        const int kind = communicates(op) ? 0 : at.kind;
        const bool joins = pieces.size() > first_piece_[Of(q)].back() && pieces.back().kind == kind;
        if (!joins) pieces.push_back({.seconds = 0, .kind = kind});
        pieces.back().seconds += at.seconds;
        block.mixed = block.mixed || communicates(op);
        continue;
      }
      block.flight += at.seconds;
      block.flight_kind = at.kind;
      block.lanes |= 1u << static_cast<unsigned>(at.lane);
      (*flight_of)[Of(op)] = {q, static_cast<int>(items_[Of(q)].size())};
    }
    items_[Of(q)].push_back(block);
  }

  // Counts what the items of a queue compute.
  void AddUp(int q) {
    std::vector<double>& computed = computed_[Of(q)];
    computed.push_back(0);
    for (size_t i = 0; i < items_[Of(q)].size(); ++i) {
      computed.push_back(computed.back());
      for (size_t piece = first_piece_[Of(q)][i]; piece < first_piece_[Of(q)][i + 1]; ++piece)
        computed.back() += pieces_[Of(q)][piece].seconds;
    }
  }

  size_t Number(const PerQueue<int>& at, int flights) const {
    return Of((((at[0] * (size_[1] + 1)) + at[1]) * (size_[2] + 1) + at[2]) * kFlights + flights);
  }

  // Tries every block that may follow a state.
  void Continue(const PerQueue<int>& from, int flights) {
    if (states_[Number(from, flights)].seconds == kNever) return;
    PerQueue<int> to;
    for (to[0] = from[0]; to[0] <= LastOf(0, from); ++to[0]) {
      for (to[1] = from[1]; to[1] <= LastOf(1, from); ++to[1]) {
        for (to[2] = from[2]; to[2] <= LastOf(2, from); ++to[2]) {
          if (to != from || flights != 0) Try(from, flights, to);
        }
      }
    }
  }
  int LastOf(int q, const PerQueue<int>& from) const {
    return std::min(size_[Of(q)], from[Of(q)] + most_items_);
  }

  // The items of a queue in one block, as one.
  BlockItem SegmentOf(int q, int from, int to) const {
    BlockItem all;
    for (int i = from; i < to; ++i) {
      const BlockItem& item = items_[Of(q)][Of(i)];
      all.flight = item.flight;
      all.lanes = item.lanes;
      all.mixed = all.mixed || item.mixed || (item.lanes != 0 && i + 1 < to);
      for (size_t r = 0; r < kSegments; ++r)
        all.behind[r] = std::max(all.behind[r], item.behind[r]);
      for (size_t r = 0; r < kStrands; ++r) all.lands[r] = std::max(all.lands[r], item.lands[r]);
    }
    return all;
  }

  void Try(const PerQueue<int>& from, int flights, const PerQueue<int>& to) {
    PerQueue<BlockItem> segments;
    Flights flying = {};
    int played = 0, next_flights = 0;
    bool mixed = false;
    for (int q = 0; q < kSegments; ++q) {
      segments[Of(q)] = SegmentOf(q, from[Of(q)], to[Of(q)]);
      played += to[Of(q)] - from[Of(q)];
      mixed = mixed || segments[Of(q)].mixed;
      if (q == kStrands) continue;
      if (segments[Of(q)].lanes != 0) next_flights |= 1 << q;
      if ((flights >> q & 1) == 0) continue;
      const BlockItem& before = items_[Of(q)][Of(from[Of(q)] - 1)];
      flying[Of(q)] = {.left = before.flight, .kind = before.flight_kind};
    }
    if (mixed && played > 1) return;
    if ((segments[0].lanes & segments[1].lanes) != 0) return;
    State& state = states_[Number(to, next_flights)];
    const double before = states_[Number(from, flights)].seconds;
    double computes = 0;  // at least, in any order
    for (size_t q = 0; q < kSegments; ++q)
      computes += computed_[q][Of(to[q])] - computed_[q][Of(from[q])];
    if (before + std::max({computes, flying[0].left, flying[1].left}) >= state.seconds) return;
    std::array<int, kSegments> turns;
    std::iota(turns.begin(), turns.end(), 0);
    do {
      const double seconds = before + SecondsOf(segments, turns, from, to, flying, mixed);
      if (seconds >= state.seconds) continue;
      state = {.seconds = seconds, .from = from, .flights_before = flights, .turns = turns};
    } while (std::next_permutation(turns.begin(), turns.end()));
  }

  // Returns the time of a block that begins with these collectives, kNever if a segment may not
  // come there.
  double SecondsOf(const PerQueue<BlockItem>& segments, const std::array<int, kSegments>& turns,
                   const PerQueue<int>& from, const PerQueue<int>& to, Flights flying,
                   bool mixed) const {
    PerQueue<int> at = from;
    double now = mixed ? Wait(std::max(flying[0].left, flying[1].left), &flying) : 0;
    for (int q : turns) {
      if (to[Of(q)] == from[Of(q)]) continue;
      const BlockItem& segment = segments[Of(q)];
      for (size_t r = 0; r < kSegments; ++r) {
        if (r != Of(q) && segment.behind[r] > at[r]) return kNever;
      }
      for (size_t r = 0; r < kStrands; ++r) {
        if (segment.lands[r] > from[r]) return kNever;
        if (segment.lands[r] == from[r]) now += Wait(flying[r].left, &flying);
      }
      const size_t end = first_piece_[Of(q)][Of(to[Of(q)])];
      for (size_t i = first_piece_[Of(q)][Of(from[Of(q)])]; i < end; ++i)
        now += Compute(pieces_[Of(q)][i], &flying);
      at[Of(q)] = to[Of(q)];
    }
    return now + std::max(flying[0].left, flying[1].left);
  }

  // Computes nothing for a time, which it returns.
  static double Wait(double seconds, Flights* flying) {
    if (seconds == 0) return 0;
    for (Flight& flight : *flying) {
      flight.turn = 0;
      flight.left = std::max(0.0, flight.left - seconds);
    }
    return seconds;
  }

  // Returns the time of a computation beside collectives, each of which slows it down and is slowed
  // down until one of them ends, or has waited for its turn. One that waits slows down nothing.
  double Compute(const Piece& piece, Flights* flying) const {
    double now = 0, left = piece.seconds;
    while (left > 0) {
      double rate = 1, next = kNever;
      Flight* first = nullptr;  // whose wait or time ends before the computation does: none
      for (Flight& flight : *flying) {
        if (flight.left <= 0) continue;
        const Contention& of = Together(piece.kind, flight.kind);
        if (flight.turn < 0) flight.turn = of.turn_seconds;
        if (flight.turn <= 0) rate = std::min(rate, 1 - of.compute);
        const double end = flight.turn > 0 ? flight.turn : flight.left / (1 - of.communication);
        if (end >= next) continue;
        next = end;
        first = &flight;
      }
      if (left / rate <= next) {
        next = left / rate;
        first = nullptr;
      }
      for (Flight& flight : *flying) {
        double& part = flight.turn > 0 ? flight.turn : flight.left;
        const double part_rate =
            flight.turn > 0 ? 1 : 1 - Together(piece.kind, flight.kind).communication;
        part = &flight == first ? 0 : std::max(0.0, part - next * part_rate);
      }
      left = first == nullptr ? 0 : left - next * rate;
      now += next;
    }
    return now;
  }
  const Contention& Together(int computation, int collective) const {
    static constexpr Contention kNone;
    if (cell_.together.empty()) return kNone;
    return cell_.together[Of(computation)][Of(collective)];
  }

  absl::StatusOr<CellPlan> PlanTo(PerQueue<int> at) const {
    int flights = 0;
    const double seconds = states_[Number(at, flights)].seconds;
    if (seconds == kNever)
      return absl::InvalidArgumentError("no sequence of blocks plays the cell");
    CellPlan plan = {.order = {}, .seconds = seconds, .exact = true};
    while (at != PerQueue<int>{} || flights != 0) {
      const State& state = states_[Number(at, flights)];
      plan.barriers.push_back(Of(std::accumulate(state.from.begin(), state.from.end(), 0)));
      for (size_t turn = kSegments; turn-- > 0;) {
        const int q = state.turns[turn];
        plan.order.insert(plan.order.end(), Of(at[Of(q)] - state.from[Of(q)]),
                          static_cast<Queue>(q));
      }
      at = state.from;
      flights = state.flights_before;
    }
    std::reverse(plan.order.begin(), plan.order.end());
    if (!plan.barriers.empty()) plan.barriers.pop_back();  // in front of the first block
    std::reverse(plan.barriers.begin(), plan.barriers.end());
    return plan;
  }

  const CellItems& cell_;
  const int most_items_;
  PerQueue<std::vector<BlockItem>> items_;
  PerQueue<std::vector<Piece>> pieces_;
  PerQueue<std::vector<size_t>> first_piece_;  // of each item, and behind the last
  PerQueue<std::vector<double>> computed_;     // seconds of the items before each, and of all
  PerQueue<int> size_ = {};
  std::vector<State> states_;  // by items played, then by flights
};

}  // namespace

absl::StatusOr<CellPlan> BlockPlan(const CellItems& cell, int most_items) {
  // The embedding of the next micro-batch comes before the other items of forward.
  constexpr auto kForward = static_cast<size_t>(Queue::kForward),
                 kNext = static_cast<size_t>(Queue::kNext);
  CellItems three = cell;
  const auto moved = static_cast<int>(cell.queues[kNext].size());
  for (std::vector<CellItem>& items : three.queues) {
    for (CellItem& item : items) {
      if (item.behind[kForward] > 0) item.behind[kForward] += moved;
    }
  }
  std::vector<CellItem>& forward = three.queues[kForward];
  forward.insert(forward.begin(), cell.queues[kNext].begin(), cell.queues[kNext].end());
  three.queues[kNext].clear();
  size_t states = kFlights;
  for (const std::vector<CellItem>& items : three.queues) states *= items.size() + 1;
  if (states > kMostBlockStates) {
    return absl::InvalidArgumentError(absl::StrCat("blocks of a cell: found ", states,
                                                   " states, expected at most ", kMostBlockStates,
                                                   ", which fewer layers or slices have"));
  }
  ASSIGN_OR_RETURN(CellPlan plan, Blocks(three, most_items).Solve());
  int next = 0;
  for (Queue& queue : plan.order) {
    if (queue == Queue::kForward && next++ < moved) queue = Queue::kNext;
  }
  return plan;
}

}  // namespace stretto
