// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/phases.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace stretto::bench {
namespace {

using Intervals = std::vector<Interval>;

// Returns disjoint intervals in ascending order.
Intervals Union(Intervals all) {
  std::sort(all.begin(), all.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Intervals merged;
  for (const Interval& next : all) {
    if (!merged.empty() && next.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, next.end);
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

// Returns the seconds that two unions have in common.
double Common(absl::Span<const Interval> a, absl::Span<const Interval> b) {
  int64_t total = 0;
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    total += std::max<int64_t>(0, std::min(a[i].end, b[k].end) - std::max(a[i].begin, b[k].begin));
    a[i].end < b[k].end ? ++i : ++k;
  }
  return static_cast<double>(total) * 1e-9;
}

enum class Part { kForward, kBackward, kOptimizer };

// The loss counts as backward, because nothing waits for it and schedules fill gaps with it.
Part PartOf(const Op& op) {
  if (op.kind == OpKind::kCrossEntropyLoss) return Part::kBackward;
  if (op.tag.phase == Phase::kForward) return Part::kForward;
  return op.tag.phase == Phase::kOptimizer ? Part::kOptimizer : Part::kBackward;
}

template <class Wanted>
Intervals Pick(const Program& program, absl::Span<const Interval> intervals, Wanted wanted) {
  Intervals picked;
  for (OpId op : program.ops.ids()) {
    if (wanted(program.ops[op])) picked.push_back(intervals[op.position()]);
  }
  return Union(std::move(picked));
}

Intervals Computations(const Program& program, absl::Span<const Interval> intervals) {
  return Pick(program, intervals, [](const Op& op) { return !IsCollective(op.kind); });
}

}  // namespace

StepTimes TimesOf(const Program& program, absl::Span<const Interval> intervals, int64_t begin) {
  const Intervals compute = Computations(program, intervals);
  const auto phase = [&](auto in_phase, int64_t from, int64_t* end) {
    for (OpId op : program.ops.ids()) {
      if (in_phase(PartOf(program.ops[op]))) *end = std::max(*end, intervals[op.position()].end);
    }
    const Intervals communication = Pick(program, intervals, [&](const Op& op) {
      return IsCollective(op.kind) && in_phase(PartOf(op));
    });
    return PhaseTimes{.seconds = static_cast<double>(*end - from) * 1e-9,
                      .communication = Common(communication, communication),
                      .hidden = Common(compute, communication)};
  };
  int64_t first = std::numeric_limits<int64_t>::max();
  for (OpId op : program.ops.ids()) {
    if (PartOf(program.ops[op]) != Part::kOptimizer)
      first = std::min(first, intervals[op.position()].begin);
  }
  int64_t forward_end = first;
  StepTimes times;
  times.forward = phase([](Part part) { return part == Part::kForward; }, first, &forward_end);
  int64_t end = forward_end;
  times.backward = phase([](Part part) { return part == Part::kBackward; }, forward_end, &end);
  end = first;
  times.step = phase([](Part part) { return part != Part::kOptimizer; }, first, &end);
  for (const Interval& interval : intervals) end = std::max(end, interval.end);
  times.optimizer = static_cast<double>(end - begin) * 1e-9 - times.step.seconds;
  return times;
}

bool MixesPhases(const Program& program) {
  IdVector<LaneId, bool> backward_began(program.lanes.size());
  for (const Op& op : program.ops) {
    const Part part = PartOf(op);
    if (part == Part::kBackward) backward_began[op.lane] = true;
    if (part == Part::kForward && backward_began[op.lane]) return true;
  }
  return false;
}

std::vector<double> SharesUnderOtherSide(const Program& program,
                                         absl::Span<const Interval> intervals) {
  const Intervals compute = Computations(program, intervals);
  const Intervals communication =
      Pick(program, intervals, [](const Op& op) { return IsCollective(op.kind); });
  std::vector<double> shares;
  for (OpId op : program.ops.ids()) {
    const absl::Span<const Interval> own = intervals.subspan(op.position(), 1);
    const double seconds = static_cast<double>(own[0].end - own[0].begin) * 1e-9;
    const bool collective = IsCollective(program.ops[op].kind);
    const double common = Common(own, collective ? compute : communication);
    shares.push_back(seconds > 0 ? common / seconds : 0);
  }
  return shares;
}

}  // namespace stretto::bench
