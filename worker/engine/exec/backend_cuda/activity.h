// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a profiler saw on a device's streams, and whether the ledger says the same. Pure functions
// of numbers.
//
// The ledger times a lane by events around its segments (issue_plan.h); a profiler times the
// kernels themselves. Both cannot agree to the nanosecond:
//
// - A kernel of a segment begins and ends between its two events, by the order of a stream. What
//   lies outside all segments (`unseen`) is a mistake of the ledger but for how exactly the two
//   clocks and the events are known: events have a resolution of half a microsecond (CUDA runtime,
//   cudaEventElapsedTime), the float that tells their distance has one of a microsecond beyond
//   eight seconds, and mapping clocks has the error that it says. `edge` for each end of a segment
//   bounds all of it.
// - Within a segment a stream is empty between two kernels, and between an event and a kernel,
//   while the next is launched: 1 to 5 us each where the host is ahead of the device. What is empty
//   beyond `gap` for each of them (`empty`) the ledger calls computation that did not happen. On a
//   lane that communicates that is no mistake: an interval of communication begins when its data is
//   ready, also where its kernel then waits for SMs (DESIGN section 6).
// - The ledger's clock is the host's from the moment at which that saw the step's first event, a
//   little late: a `shift` common to all lanes. Nothing in the ledger is wrong by it but the waits
//   of the host at the ends of a step, so it is taken out first, up to `most_shift`.

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/exec/executor.h"

namespace stretto::cuda {

// A kernel, a copy ("memcpy") or a fill ("memset").
struct DeviceActivity {
  uint32_t stream = 0;  // as the profiler numbers them
  std::string name;
  Interval at;  // on the host's clock
};

// What the ledger has of a lane: an interval for each segment, in any order.
struct LaneIntervals {
  std::string name;  // "compute"
  uint32_t stream = 0;
  bool communicates = false;
  std::vector<Interval> segments;
};

// In nanoseconds; see above.
struct ActivityTolerance {
  int64_t edge = 2'000;
  int64_t gap = 5'000;
  int64_t most_shift = 1'000'000;
  int64_t clock_error = 0;  // of the activities' times; counts at every edge
};

struct LaneAgreement {
  std::string lane;
  int64_t activity = 0;  // nanoseconds: union of the activities on its stream
  int64_t ledger = 0;    // union of its segments
  int64_t unseen = 0;    // activity, but no segment
  int64_t empty = 0;     // a segment, but no activity
  // The segment with most of its time empty, and how much; -1: there is none.
  int worst_segment = -1;
  int64_t worst_empty = 0;
  std::string most_unseen;  // the activity with most of its time in no segment; empty: none
  bool agrees = false;
};

struct LedgerComparison {
  int64_t shift = 0;                 // by which the ledger is late
  std::vector<LaneAgreement> lanes;  // in the order given
  bool agrees = false;

  // One line: "shift 12.0 us; compute: 812.113 ms active, ...".
  std::string Describe() const;
};

// Activities on streams that are no lane's are passed over.
LedgerComparison CompareWithLedger(const std::vector<DeviceActivity>& activities,
                                   const std::vector<LaneIntervals>& lanes,
                                   const ActivityTolerance& tolerance = {});

}  // namespace stretto::cuda
