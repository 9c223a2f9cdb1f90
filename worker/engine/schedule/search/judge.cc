// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/search/judge.h"

#include <algorithm>
#include <map>

#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_sim/timeline.h"

namespace stretto {
namespace {

// The operations of the cell in an order. Those of a lane wait for others as the cell says.
Program InOrder(const WovenCell& woven, const Merge& order) {
  Program program = woven.program;
  program.ops.clear();
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
      moved[i] = program.ops.Add(std::move(op));
    }
  }
  return program;
}

}  // namespace

bool HasContention(const CostModel& cost) {
  const auto any = [](const Contention& of) { return of.compute > 0 || of.communication > 0; };
  return any(cost.contention) || std::any_of(cost.pairs.begin(), cost.pairs.end(),
                                             [&](const auto& pair) { return any(pair.second); });
}

CellItems SlowedDown(const WovenCell& woven, const CostModel& cost, double share) {
  std::map<OpKind, double> computing, communicating;  // seconds of the cell
  double computes = 0, communicates = 0;
  for (size_t i = 0; i < woven.ops.size(); ++i) {
    const OpKind kind = woven.program.ops[woven.ops[i]].kind;
    const double seconds = woven.cell.ops[i].seconds;
    (IsCollective(kind) ? communicating : computing)[kind] += seconds;
    (IsCollective(kind) ? communicates : computes) += seconds;
  }
  std::map<OpKind, double> loss;  // of speed, weighted by the time of the other side
  for (const auto& [computation, alone] : computing) {
    for (const auto& [collective, flight] : communicating) {
      const Contention& of = cost.Together(computation, InfoOf(collective).collective);
      if (communicates > 0) loss[computation] += of.compute * flight / communicates;
      if (computes > 0) loss[collective] += of.communication * alone / computes;
    }
  }
  CellItems slow = woven.cell;
  for (size_t i = 0; i < woven.ops.size(); ++i)
    slow.ops[i].seconds /= 1 - share * loss[woven.program.ops[woven.ops[i]].kind];
  return slow;
}

absl::StatusOr<double> JudgedSeconds(const WovenCell& woven, const CostModel& cost,
                                     const Merge& order) {
  ASSIGN_OR_RETURN(const std::vector<Interval> intervals, Simulate(InOrder(woven, order), cost));
  return static_cast<double>(SpanOf(intervals).end) * 1e-9;
}

}  // namespace stretto
