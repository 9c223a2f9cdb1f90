// SPDX-License-Identifier: Apache-2.0

// Puts the operations of a cell in the order of a plan, with what each depends on as its waits, and
// simulates that program three times.

#include "worker/engine/schedule/search/judge.h"

#include <algorithm>
#include <limits>
#include <map>

#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/schedule/helix.h"
#include "worker/engine/schedule/search/event_plan.h"

namespace stretto {
namespace {

// The operations of a cell in an order, each behind all that it depends on.
struct OrderedCell {
  Program program;
  IdVector<OpId, double> seconds;
};

OrderedCell InOrder(const PlayedCell& cell, const WeavePlan& plan) {
  Weaver weaver = cell.weaver;
  PlayPlan(plan, &weaver);
  OrderedCell ordered = {.program = cell.program, .seconds = {}};
  ordered.program.ops.clear();
  IdVector<OpId, OpId> moved(cell.program.ops.size());
  for (OpId id : weaver.Finish()) {
    Op op = cell.program.ops[id];
    op.waits.clear();
    for (OpId needed : cell.weaver.needs()[id]) op.waits.push_back(moved[needed]);
    std::sort(op.waits.begin(), op.waits.end());
    moved[id] = ordered.program.ops.Add(std::move(op));
    ordered.seconds.push_back(cell.seconds[id]);
  }
  for (OpId id : weaver.barriers()) ordered.program.ops[moved[id]].barrier = true;
  HoldBarriers(cell.program.lanes.size(), &ordered.program.ops);
  return ordered;
}

// With all computations and all collectives longer by these factors.
absl::StatusOr<double> SimulatedSeconds(const OrderedCell& cell, const CostModel& cost,
                                        double computation, double communication) {
  IdVector<OpId, double> seconds = cell.seconds;
  for (OpId op : seconds.ids())
    seconds[op] *= IsCollective(cell.program.ops[op].kind) ? communication : computation;
  const SimulatedRank rank = {
      .program = &cell.program, .cost = &cost, .copies = {}, .seconds = &seconds};
  ASSIGN_OR_RETURN(const auto intervals, Simulate({&rank, 1}));
  return static_cast<double>(SpanOf(intervals.front()).end) * 1e-9;
}

}  // namespace

CellItems SlowedDown(const WovenCell& woven, const CostModel& cost) {
  std::map<OpKind, double> computing, communicating;  // seconds of the cell
  double computes = 0, communicates = 0;
  for (size_t i = 0; i < woven.ops.size(); ++i) {
    const OpKind kind = woven.played.program.ops[woven.ops[i]].kind;
    const double seconds = woven.cell.ops[i].seconds;
    (IsCollective(kind) ? communicating : computing)[kind] += seconds;
    (IsCollective(kind) ? communicates : computes) += seconds;
  }
  std::map<OpKind, double> loss;  // of speed
  std::map<OpKind, double> turn;  // seconds of a collective
  for (const auto& [computation, alone] : computing) {
    for (const auto& [collective, flight] : communicating) {
      const Contention& of = cost.Together(computation, InfoOf(collective).collective);
      // Each side is covered as far as the other reaches: all of the shorter one.
      const double both = std::min(computes, communicates);
      if (both == 0) continue;
      loss[computation] += of.compute * flight / communicates * (both / computes);
      const double covered = alone / computes * (both / communicates);
      loss[collective] += of.communication * covered;
      turn[collective] += of.turn_seconds * covered;
    }
  }
  CellItems slow = woven.cell;
  for (size_t i = 0; i < woven.ops.size(); ++i) {
    const OpKind kind = woven.played.program.ops[woven.ops[i]].kind;
    slow.ops[i].seconds = slow.ops[i].seconds / (1 - loss[kind]) + turn[kind];
  }
  return slow;
}

absl::StatusOr<JudgedTimes> Judge(const std::vector<PlayedCell>& stages, const CostModel& cost,
                                  const WeavePlan& plan) {
  CostModel steady = cost;
  steady.interconnect.burst_bytes = 0;
  constexpr JudgedTimes kComputation = {1, 1 + kDoubt, 1 - kDoubt},
                        kCommunication = {1, 1 - kDoubt, 1 + kDoubt};
  JudgedTimes longest = {};
  for (const PlayedCell& stage : stages) {
    const OrderedCell cell = InOrder(stage, plan);
    for (size_t i = 0; i < longest.size(); ++i) {
      ASSIGN_OR_RETURN(const double seconds,
                       SimulatedSeconds(cell, steady, kComputation[i], kCommunication[i]));
      longest[i] = std::max(longest[i], seconds);
    }
  }
  return longest;
}

size_t LeastRegret(const std::vector<JudgedTimes>& times, double limit) {
  JudgedTimes shortest;
  shortest.fill(std::numeric_limits<double>::infinity());
  for (const JudgedTimes& of : times) {
    for (size_t i = 0; i < of.size(); ++i) shortest[i] = std::min(shortest[i], of[i]);
  }
  size_t least = times.size();
  double least_regret = std::numeric_limits<double>::infinity();
  for (size_t candidate = 0; candidate < times.size(); ++candidate) {
    const JudgedTimes& of = times[candidate];
    double regret = 1;
    for (size_t i = 0; i < of.size(); ++i) regret = std::max(regret, of[i] / shortest[i]);
    if (of[0] > limit || regret >= least_regret * (1 - kWorth)) continue;
    least = candidate;
    least_regret = regret;
  }
  STRETTO_CHECK(least < times.size());
  return least;
}

}  // namespace stretto
