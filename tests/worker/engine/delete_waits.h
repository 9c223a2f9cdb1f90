// SPDX-License-Identifier: Apache-2.0
#pragma once
// Both public Domino code bases shipped a missing wait. Here every wait of a program is deleted in
// turn.

#include <algorithm>

#include "gtest/gtest.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/text.h"
#include "worker/engine/program/verify.h"

namespace stretto {

struct WaitCounts {
  int needed = 0;     // Verify refuses the program without it
  int redundant = 0;  // happens-before is the same without it
};

// Whether `op` comes after `wait` by lane order (`previous`: the operation before it on its lane,
// or -1) or by its other waits, so that nothing is ordered by this one alone.
inline bool IsRedundant(const HappensBefore& order, const Op& op, OpId previous, size_t wait) {
  const OpId producer = op.waits[wait];
  const auto covers = [&](OpId other) {
    return other == producer || (other >= 0 && order.Before(producer, other));
  };
  bool covered = covers(previous);
  for (size_t i = 0; i < op.waits.size(); ++i) covered |= i != wait && covers(op.waits[i]);
  return covered;
}

// Each wait of a verified, planned program is needed or redundant: one that is neither orders
// nothing that must be, and costs time. Two waits that cover each other count as redundant both.
// A few thousand operations take about a second.
inline WaitCounts ExpectEveryWaitNeededOrRedundant(const Program& planned,
                                                   const ArenaBytes& arenas) {
  WaitCounts counts;
  const absl::Status whole = Verify(planned, &arenas);
  EXPECT_TRUE(whole.ok()) << whole;
  if (!whole.ok()) return counts;
  const HappensBefore order = *HappensBefore::Build(planned);
  Program program = planned;
  IdVector<LaneId, OpId> last_of_lane(program.lanes.size());
  for (OpId id : program.ops.ids()) {
    Op& op = program.ops[id];
    OpId& previous = last_of_lane[op.lane];
    for (size_t wait = 0; wait < op.waits.size(); ++wait) {
      if (IsRedundant(order, op, previous, wait)) {
        ++counts.redundant;
        continue;
      }
      const WaitList all = op.waits;
      op.waits.erase(op.waits.begin() + static_cast<std::ptrdiff_t>(wait));
      const absl::Status status = Verify(program, &arenas);
      op.waits = all;
      ++counts.needed;
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
          << "nothing needs wait " << all[wait].value() << " of " << PrintOp(planned, id);
    }
    previous = id;
  }
  return counts;
}

}  // namespace stretto
