// SPDX-License-Identifier: Apache-2.0
#pragma once
// One step of some ranks, prepared for drawing. Plain values.

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/cli/trace/anatomy.h"
#include "coordinator/cli/trace/records.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Spans are relative to the begin of the step on the rank that started first.
struct TimelineBar {
  Span span;
  int phase = 0;      // index in kPhaseNames
  std::string label;  // "L3.fc2"
};

struct TimelineLane {
  std::string name;
  bool communicates = false;
  std::vector<TimelineBar> bars;  // by begin
  // On a communication lane: the parts of bars that no computation hides. On the first compute
  // lane: the times when the rank waits for them.
  std::vector<Span> exposed;
  std::vector<Span> data_waits, checkpoint_waits, evaluations;  // on the first compute lane
};

struct TimelineRank {
  int rank = 0;
  Span step;
  std::vector<TimelineLane> lanes;  // those with operations
  v1alpha1::Ledger ledger;          // as the rank reported it
};

struct Timeline {
  std::string job, schedule;
  int64_t step = 0;
  bool emulated_link = false;
  int machines = 1;
  int64_t length = 0;  // to the end of the last rank
  std::vector<TimelineRank> ranks;

  // Over all ranks.
  double overlap_ratio() const;  // NaN when nothing was communicated
};

class TimelineBuilder {
 public:
  // `begin` is that of the step, on the common axis.
  void Add(int rank, const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step,
           int64_t begin);
  Timeline Build(const v1alpha1::Job& job, int machines);
  bool empty() const { return timeline_.ranks.empty(); }

 private:
  Timeline timeline_;
};

// Returns a distance between ticks (1, 2 or 5 times a power of ten nanoseconds) that gives at most
// `most` ticks.
int64_t TickDistance(int64_t length, int most);
// "20", "0.5": milliseconds.
std::string TickText(int64_t time);
// "103.0 ms", "2m05s"
std::string LengthText(int64_t length);

}  // namespace stretto::cli
