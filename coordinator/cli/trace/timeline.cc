// SPDX-License-Identifier: Apache-2.0

// Turns the program and the intervals of a step into lanes of bars, marks the exposed parts of the
// collectives (Anatomy), and chooses the distance of ticks.

#include "coordinator/cli/trace/timeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "proto/base/printable.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;
using v1alpha1::TraceIntervals;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

std::vector<TimelineLane> LanesOf(const TraceProgram& program, const TraceStep& step) {
  std::vector<TimelineLane> lanes;
  for (const std::string& name : program.lanes()) {
    lanes.emplace_back();
    lanes.back().name = Escaped(name);
  }
  for (int i = 0; i < program.operations_size(); ++i) {
    const v1alpha1::TraceOperation& op = program.operations(i);
    TimelineLane& lane = lanes[op.lane()];
    lane.communicates = lane.communicates || !op.group().empty();
    const std::vector<std::string> words = absl::StrSplit(Escaped(op.label()), ' ');
    const TimelineBar bar = {SpanAt(step.operations(), i), PhaseIndex(op.phase()), words[0]};
    // Operations that were captured together on a GPU have one interval and become one bar.
    const bool together = !lane.bars.empty() && lane.bars.back().phase == bar.phase &&
                          lane.bars.back().span.begin == bar.span.begin &&
                          lane.bars.back().span.end == bar.span.end;
    if (!together) lane.bars.push_back(bar);
  }
  lanes.erase(std::remove_if(lanes.begin(), lanes.end(),
                             [](const TimelineLane& lane) { return lane.bars.empty(); }),
              lanes.end());
  for (TimelineLane& lane : lanes) {
    std::stable_sort(
        lane.bars.begin(), lane.bars.end(),
        [](const TimelineBar& a, const TimelineBar& b) { return a.span.begin < b.span.begin; });
  }
  return lanes;
}

// Returns the parts of the lane's bars that are within `exposed`; both are sorted by begin.
std::vector<Span> Intersect(const std::vector<TimelineBar>& bars,
                            const std::vector<Span>& exposed) {
  std::vector<Span> parts;
  size_t first = 0;
  for (const TimelineBar& bar : bars) {
    while (first < exposed.size() && exposed[first].end <= bar.span.begin) ++first;
    for (size_t i = first; i < exposed.size() && exposed[i].begin < bar.span.end; ++i) {
      parts.push_back(
          {std::max(bar.span.begin, exposed[i].begin), std::min(bar.span.end, exposed[i].end)});
    }
  }
  return parts;
}

void Shift(int64_t by, std::vector<Span>* spans) {
  for (Span& span : *spans) span = {span.begin + by, span.end + by};
}

}  // namespace

void TimelineBuilder::Add(int rank, const TraceProgram& program, const TraceStep& step,
                          int64_t begin) {
  TimelineRank row;
  row.rank = rank;
  row.step = {begin, begin + step.end_nanoseconds() - step.begin_nanoseconds()};
  row.ledger = step.report().ledger();
  row.lanes = LanesOf(program, step);
  std::vector<Span> exposed, data, checkpoint, evaluation;
  for (const LedgerSegment& segment : Anatomy(program, step)) {
    if (segment.part == Ledger::EXPOSED) exposed.push_back(segment.span);
    if (segment.part == Ledger::DATA_WAIT) data.push_back(segment.span);
    if (segment.part == Ledger::CHECKPOINT_WAIT) checkpoint.push_back(segment.span);
    if (segment.part == Ledger::EVALUATION) evaluation.push_back(segment.span);
  }
  bool waits_shown = false;
  for (TimelineLane& lane : row.lanes) {
    if (lane.communicates) {
      lane.exposed = Intersect(lane.bars, exposed);
    } else if (!std::exchange(waits_shown, true)) {
      lane.exposed = exposed;
      lane.data_waits = data;
      lane.checkpoint_waits = checkpoint;
      lane.evaluations = evaluation;
    }
  }
  timeline_.step = step.step();
  timeline_.ranks.push_back(std::move(row));
}

Timeline TimelineBuilder::Build(const v1alpha1::Job& job, int machines) {
  Timeline& out = timeline_;
  out.job = Escaped(job.name().substr(job.name().find('/') + 1));
  out.schedule = Escaped(job.spec().schedule().name());
  out.emulated_link = job.spec().has_emulated_link();
  out.machines = machines;
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const TimelineRank& rank : out.ranks) origin = std::min(origin, rank.step.begin);
  for (TimelineRank& rank : out.ranks) {
    const int64_t by = rank.step.begin - origin;
    rank.step = {by, rank.step.end - origin};
    out.length = std::max(out.length, rank.step.end);
    for (TimelineLane& lane : rank.lanes) {
      for (TimelineBar& bar : lane.bars) bar.span = {bar.span.begin + by, bar.span.end + by};
      for (auto* spans :
           {&lane.exposed, &lane.data_waits, &lane.checkpoint_waits, &lane.evaluations}) {
        Shift(by, spans);
      }
    }
  }
  return std::move(timeline_);
}

double Timeline::overlap_ratio() const {
  double hidden = 0, communication = 0;
  for (const TimelineRank& rank : ranks) {
    hidden += rank.ledger.hidden_seconds();
    communication += rank.ledger.communication_seconds();
  }
  return communication > 0 ? hidden / communication : std::numeric_limits<double>::quiet_NaN();
}

int64_t TickDistance(int64_t length, int most) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t digit : {1, 2, 5}) {
      if (length / (digit * power) <= most) return digit * power;
    }
  }
}

std::string TickText(int64_t time) {
  return absl::StrFormat("%.6g", static_cast<double>(time) * 1e-6);
}

std::string LengthText(int64_t length) {
  if (length >= 10'000'000'000) return stretto::FormatDuration(absl::Nanoseconds(length));
  return absl::StrFormat("%.1f ms", static_cast<double>(length) * 1e-6);
}

}  // namespace stretto::cli
