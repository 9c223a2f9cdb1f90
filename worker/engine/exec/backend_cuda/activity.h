// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares the activity that a profiler recorded on a device's streams with the ledger. Pure
// functions of numbers.
//
// The ledger times a lane by events around its segments (issue_plan.h); a profiler times the
// kernels themselves. The two cannot agree to the nanosecond:
//
// - A kernel of a segment begins and ends between the segment's two events, by the order of a
//   stream. Activity outside all segments (`unseen`) is therefore an error of the ledger, up to the
//   precision of the two clocks and of the events: events have a resolution of half a microsecond
//   (CUDA runtime, cudaEventElapsedTime), the float of their distance has one of a microsecond
//   beyond eight seconds, and the mapping of clocks has an error of its own. `edge`, for each end
//   of a segment, bounds all of these.
// - Within a segment a stream is empty between two kernels, and between an event and a kernel,
//   while the next one is launched: 1 to 5 us each if the host is ahead of the device. Time that is
//   empty beyond `gap` for each of them (`empty`) is computation in the ledger that did not happen.
//   On a lane that communicates it is no error: an interval of communication begins when its data
//   is ready, even if its kernel then waits for SMs (DESIGN section 6).
// - The ledger's clock is that of the host, from the moment at which the host saw the step's first
//   event. That is slightly late, by a `shift` common to all lanes, which affects only the waits of
//   the host at the ends of a step. The shift is removed first, up to `most_shift`.

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/exec/executor.h"

namespace stretto::cuda {

// A kernel, a copy ("memcpy") or a fill ("memset").
struct DeviceActivity {
  uint32_t stream = 0;  // the profiler's id of the stream
  std::string name;
  Interval at;  // on the host's clock
};

// The intervals of a lane in the ledger, one for each segment, in any order.
struct LaneIntervals {
  std::string name;  // "compute"
  uint32_t stream = 0;
  bool communicates = false;
  std::vector<Interval> segments;
};

// Tolerances in nanoseconds; see above.
struct ActivityTolerance {
  int64_t edge = 2'000;
  int64_t gap = 5'000;
  int64_t most_shift = 1'000'000;
};

struct LaneAgreement {
  std::string lane;
  int64_t activity = 0;  // nanoseconds: union of the activities on its stream
  int64_t ledger = 0;    // union of its segments
  int64_t unseen = 0;    // activity, but no segment
  int64_t empty = 0;     // a segment, but no activity
  // The segment with the most empty time, and that time; -1: there is none.
  int worst_segment = -1;
  int64_t worst_empty = 0;
  std::string most_unseen;  // the activity with the most time outside segments; empty: none
  bool agrees = false;
};

struct LedgerComparison {
  int64_t shift = 0;                 // by which the ledger is late
  std::vector<LaneAgreement> lanes;  // in the order given
  bool agrees = false;

  // Returns one line, such as "shift 12.0 us; compute: 812.113 ms active, ...".
  std::string Describe() const;
};

// Compares lane by lane. Activities on streams of no lane are ignored.
LedgerComparison CompareWithLedger(const std::vector<DeviceActivity>& activities,
                                   const std::vector<LaneIntervals>& lanes,
                                   const ActivityTolerance& tolerance = {});

}  // namespace stretto::cuda
