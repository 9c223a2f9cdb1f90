// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/search/judge.h"

#include <algorithm>
#include <limits>
#include <map>

#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_sim/timeline.h"
#include "worker/engine/schedule/search/event_plan.h"

namespace stretto {
namespace {

// The operations of the cell in an order. Those of a lane wait for others as the cell says.
struct OrderedCell {
  Program program;
  IdVector<OpId, double> seconds;
};

OrderedCell InOrder(const WovenCell& woven, const Merge& order) {
  OrderedCell ordered = {.program = woven.program, .seconds = {}};
  ordered.program.ops.clear();
  std::vector<OpId> moved(woven.ops.size());
  PerQueue<size_t> next = {};
  for (Queue queue : order) {
    const auto q = static_cast<size_t>(queue);
    const CellItem& item = woven.cell.queues[q][next[q]++];
    for (auto i = static_cast<size_t>(item.begin); i < static_cast<size_t>(item.end); ++i) {
      Op op = woven.program.ops[woven.ops[i]];
      op.waits.clear();
      for (int earlier : woven.cell.ops[i].after)
        op.waits.push_back(moved[static_cast<size_t>(earlier)]);
      std::sort(op.waits.begin(), op.waits.end());
      moved[i] = ordered.program.ops.Add(std::move(op));
      ordered.seconds.push_back(woven.cell.ops[i].seconds);
    }
  }
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
    const OpKind kind = woven.program.ops[woven.ops[i]].kind;
    const double seconds = woven.cell.ops[i].seconds;
    (IsCollective(kind) ? communicating : computing)[kind] += seconds;
    (IsCollective(kind) ? communicates : computes) += seconds;
  }
  std::map<OpKind, double> loss;  // of speed
  for (const auto& [computation, alone] : computing) {
    for (const auto& [collective, flight] : communicating) {
      const Contention& of = cost.Together(computation, InfoOf(collective).collective);
      // Each side is covered as far as the other reaches: all of the shorter one.
      const double both = std::min(computes, communicates);
      if (both == 0) continue;
      loss[computation] += of.compute * flight / communicates * (both / computes);
      loss[collective] += of.communication * alone / computes * (both / communicates);
    }
  }
  CellItems slow = woven.cell;
  for (size_t i = 0; i < woven.ops.size(); ++i)
    slow.ops[i].seconds /= 1 - loss[woven.program.ops[woven.ops[i]].kind];
  return slow;
}

absl::StatusOr<JudgedTimes> Judge(const WovenCell& woven, const CostModel& cost,
                                  const Merge& order) {
  const OrderedCell cell = InOrder(woven, order);
  CostModel steady = cost;
  steady.interconnect.burst_bytes = 0;
  JudgedTimes times;
  ASSIGN_OR_RETURN(times[0], SimulatedSeconds(cell, steady, 1, 1));
  ASSIGN_OR_RETURN(times[1], SimulatedSeconds(cell, steady, 1 + kDoubt, 1 - kDoubt));
  ASSIGN_OR_RETURN(times[2], SimulatedSeconds(cell, steady, 1 - kDoubt, 1 + kDoubt));
  return times;
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
