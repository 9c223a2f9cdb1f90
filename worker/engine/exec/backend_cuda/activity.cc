// SPDX-License-Identifier: Apache-2.0

// Compares, per lane, the intervals that a profiler recorded with those of the ledger, as unions of
// intervals: time in one and not in the other must stay within the tolerances of activity.h.
// ShiftOf first removes the offset that all lanes have in common.

#include "worker/engine/exec/backend_cuda/activity.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stretto::cuda {
namespace {

// Ascending and disjoint intervals, none of them empty.
using Union = std::vector<Interval>;

Union UnionOf(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end <= i.begin; });
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  Union all;
  for (const Interval& interval : intervals) {
    if (all.empty() || interval.begin > all.back().end) {
      all.push_back(interval);
    } else {
      all.back().end = std::max(all.back().end, interval.end);
    }
  }
  return all;
}

int64_t LengthOf(const Union& all) {
  int64_t length = 0;
  for (const Interval& interval : all) length += interval.end - interval.begin;
  return length;
}

// Returns how much of an interval is inside a union.
int64_t Inside(const Interval& interval, const Union& all) {
  auto at = std::lower_bound(all.begin(), all.end(), interval.begin,
                             [](const Interval& i, int64_t time) { return i.end <= time; });
  int64_t inside = 0;
  for (; at != all.end() && at->begin < interval.end; ++at) {
    inside += std::min(at->end, interval.end) - std::max(at->begin, interval.begin);
  }
  return inside;
}

int64_t Outside(const Interval& interval, const Union& all) {
  return std::max<int64_t>(0, interval.end - interval.begin) - Inside(interval, all);
}

int64_t Outside(const Union& these, const Union& those) {
  int64_t outside = 0;
  for (const Interval& interval : these) outside += Outside(interval, those);
  return outside;
}

std::vector<const DeviceActivity*> On(uint32_t stream,
                                      const std::vector<DeviceActivity>& activities) {
  std::vector<const DeviceActivity*> on;
  for (const DeviceActivity& activity : activities) {
    if (activity.stream == stream) on.push_back(&activity);
  }
  return on;
}

// The last event is recorded directly after the last kernel, so their distance is the shift.
int64_t ShiftOf(const std::vector<DeviceActivity>& activities,
                const std::vector<LaneIntervals>& lanes, const ActivityTolerance& tolerance) {
  int64_t last_activity = std::numeric_limits<int64_t>::min(), last_event = last_activity;
  for (const LaneIntervals& lane : lanes) {
    for (const DeviceActivity* a : On(lane.stream, activities))
      last_activity = std::max(last_activity, a->at.end);
    for (const Interval& s : lane.segments) last_event = std::max(last_event, s.end);
  }
  constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  if (last_activity == kNone || last_event == kNone) return 0;
  const int64_t shift = last_event - last_activity;
  const int64_t least = -tolerance.edge;
  return shift < least || shift > tolerance.most_shift ? 0 : shift;
}

LaneAgreement Compare(const LaneIntervals& lane, const std::vector<const DeviceActivity*>& on,
                      int64_t shift, const ActivityTolerance& tolerance) {
  std::vector<Interval> active, segments;
  for (const DeviceActivity* activity : on) active.push_back(activity->at);
  for (const Interval& s : lane.segments) segments.push_back({s.begin - shift, s.end - shift});
  const Union activity = UnionOf(active), ledger = UnionOf(segments);

  LaneAgreement result{.lane = lane.name,
                       .activity = LengthOf(activity),
                       .ledger = LengthOf(ledger),
                       .unseen = Outside(activity, ledger),
                       .empty = Outside(ledger, activity),
                       .most_unseen = ""};
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t empty = Outside(segments[i], activity);
    if (empty <= result.worst_empty) continue;
    result.worst_segment = i;
    result.worst_empty = empty;
  }
  int64_t most = 0;
  for (const DeviceActivity* a : on) {
    const int64_t unseen = Outside(a->at, ledger);
    if (unseen <= most) continue;
    most = unseen;
    result.most_unseen = a->name;
  }
  const auto count = [](const auto& of) { return static_cast<int64_t>(of.size()); };
  const int64_t edges = 2 * count(segments) * tolerance.edge;
  const int64_t gaps = (count(on) + count(segments)) * tolerance.gap;
  result.agrees = result.unseen <= edges && (lane.communicates || result.empty <= edges + gaps);
  return result;
}

std::string Milliseconds(int64_t nanoseconds) {
  return absl::StrFormat("%.3f ms", static_cast<double>(nanoseconds) * 1e-6);
}

}  // namespace

std::string LedgerComparison::Describe() const {
  std::string text = absl::StrFormat("shift %.1f us", static_cast<double>(shift) * 1e-3);
  for (const LaneAgreement& lane : lanes) {
    absl::StrAppend(&text, "; ", lane.lane, ": active ", Milliseconds(lane.activity), ", ledger ",
                    Milliseconds(lane.ledger), ", unseen ", Milliseconds(lane.unseen), ", empty ",
                    Milliseconds(lane.empty));
    if (lane.worst_segment >= 0) {
      absl::StrAppend(&text, ", most in segment ", lane.worst_segment, ": ",
                      Milliseconds(lane.worst_empty));
    }
    if (!lane.most_unseen.empty()) absl::StrAppend(&text, ", most unseen ", lane.most_unseen);
    if (!lane.agrees) absl::StrAppend(&text, ", DISAGREES");
  }
  return text;
}

LedgerComparison CompareWithLedger(const std::vector<DeviceActivity>& activities,
                                   const std::vector<LaneIntervals>& lanes,
                                   const ActivityTolerance& tolerance) {
  LedgerComparison result;
  result.shift = ShiftOf(activities, lanes, tolerance);
  result.agrees = true;
  for (const LaneIntervals& lane : lanes) {
    result.lanes.push_back(Compare(lane, On(lane.stream, activities), result.shift, tolerance));
    result.agrees = result.agrees && result.lanes.back().agrees;
  }
  return result;
}

}  // namespace stretto::cuda
