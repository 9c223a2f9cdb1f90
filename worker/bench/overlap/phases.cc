// SPDX-License-Identifier: Apache-2.0

// Sets of intervals are kept as disjoint intervals in ascending order, so that unions and what two
// of them have in common take one walk.

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

// Numbers the passes of a program in their order: forward of a micro-batch, then its backward.
class Passes {
 public:
  explicit Passes(const Program& program) {
    for (const Op& op : program.ops) last_ = std::max(last_, op.tag.micro_batch);
  }
  size_t size() const { return 2 * (static_cast<size_t>(last_) + 1); }
  bool HasPartners(size_t pass) const { return pass > 0 && pass + 1 < size(); }
  // `op` is not of the optimizer. An operation of no micro-batch is of the last one in backward,
  // which adds up what is merged, and of the first one in forward.
  size_t Of(const Op& op) const {
    const bool backward = PartOf(op) == Part::kBackward;
    const int of_none = backward ? last_ : 0;
    const int micro_batch = op.tag.micro_batch < 0 ? of_none : op.tag.micro_batch;
    return 2 * static_cast<size_t>(micro_batch) + (backward ? 1 : 0);
  }

 private:
  int last_ = 0;
};

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
  const Passes passes(program);
  const auto communication = [&](auto wanted) {
    const Intervals picked = Pick(program, intervals, [&](const Op& op) {
      return IsCollective(op.kind) && PartOf(op) != Part::kOptimizer && wanted(op);
    });
    return PhaseTimes{.communication = Common(picked, picked), .hidden = Common(compute, picked)};
  };
  StepTimes times;
  times.forward = communication([](const Op& op) { return PartOf(op) == Part::kForward; });
  times.backward = communication([](const Op& op) { return PartOf(op) == Part::kBackward; });
  times.step = communication([](const Op&) { return true; });
  times.paired = communication([&](const Op& op) { return passes.HasPartners(passes.Of(op)); });

  std::vector<int64_t> ends(passes.size(), std::numeric_limits<int64_t>::min());
  int64_t first = std::numeric_limits<int64_t>::max(), last = begin;
  for (OpId id : program.ops.ids()) {
    const Interval& interval = intervals[id.position()];
    last = std::max(last, interval.end);
    if (PartOf(program.ops[id]) == Part::kOptimizer) continue;
    first = std::min(first, interval.begin);
    int64_t& end = ends[passes.Of(program.ops[id])];
    end = std::max(end, interval.end);
  }
  int64_t now = first;
  for (size_t pass = 0; pass < ends.size(); ++pass) {
    const int64_t end = std::max(now, ends[pass]);
    const double seconds = static_cast<double>(end - now) * 1e-9;
    (pass % 2 == 0 ? times.forward : times.backward).seconds += seconds;
    if (passes.HasPartners(pass)) times.paired.seconds += seconds;
    now = end;
  }
  times.step.seconds = static_cast<double>(now - first) * 1e-9;
  times.optimizer = static_cast<double>(last - begin) * 1e-9 - times.step.seconds;
  return times;
}

bool MixesPhases(const Program& program) {
  const Passes passes(program);
  IdVector<LaneId, size_t> latest(program.lanes.size());
  for (const Op& op : program.ops) {
    if (PartOf(op) == Part::kOptimizer) continue;
    const size_t pass = passes.Of(op);
    if (pass < latest[op.lane]) return true;
    latest[op.lane] = pass;
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
