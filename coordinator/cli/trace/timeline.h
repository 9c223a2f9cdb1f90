// SPDX-License-Identifier: Apache-2.0
#pragma once
// One step of some ranks, laid out for drawing. Pure values.

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/cli/trace/anatomy.h"
#include "coordinator/cli/trace/records.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Spans count from the begin of the first rank's step that began.
struct TimelineBar {
  Span span;
  int phase = 0;      // index in kPhaseNames
  std::string label;  // "L3.fc2"
};

struct TimelineLane {
  std::string name;
  bool communicates = false;
  std::vector<TimelineBar> bars;  // by begin
  // Of communication: the parts of bars that no computation hides. Of the first lane that computes:
  // when the rank waits for them.
  std::vector<Span> exposed;
  std::vector<Span> data_waits, checkpoint_waits, evaluations;  // on the first lane that computes
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
  int64_t length = 0;  // to the last rank's end
  std::vector<TimelineRank> ranks;

  // Over all ranks.
  double overlap_ratio() const;  // NaN when nothing was communicated
};

class TimelineBuilder {
 public:
  // `begin` is the step's, on the common axis.
  void Add(int rank, const v1alpha1::TraceProgram& program, const v1alpha1::TraceStep& step,
           int64_t begin);
  Timeline Build(const v1alpha1::Job& job, int machines);
  bool empty() const { return timeline_.ranks.empty(); }

 private:
  Timeline timeline_;
};

// A distance between ticks, 1, 2 or 5 times a power of ten nanoseconds, that makes at most `most`
// of them.
int64_t TickDistance(int64_t length, int most);
// "20", "0.5": milliseconds.
std::string TickText(int64_t time);
// "103.0 ms", "2m05s"
std::string LengthText(int64_t length);

}  // namespace stretto::cli
