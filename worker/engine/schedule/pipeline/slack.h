// SPDX-License-Identifier: Apache-2.0
#pragma once
// Warm-ups by the time that passes and transfers take.

#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

// Seconds of a micro-batch in a stage. `delayed` is what the stage computes behind the send of
// backward, a part of `backward`.
struct StageSeconds {
  double forward = 0, backward = 0;
  double delayed = 0;
};

// Seconds of a transfer from a stage to the next, and of one back.
struct BoundarySeconds {
  double forward = 0, backward = 0;
};

// Returns the warm-ups of every stage: as few as keep the slowest stage computing, at most
// `micro_batches`. There is a boundary behind every stage but the last.
std::vector<int> SlackWarmUps(const std::vector<StageSeconds>& stages,
                              const std::vector<BoundarySeconds>& boundaries, int micro_batches);

// Returns the warm-ups with at most `extra` micro-batches in a stage beyond those of 1f1b. They are
// as valid as `warm_ups`: each stage keeps at least one more than the next, if there are as many.
std::vector<int> WithAtMost(int extra, std::vector<int> warm_ups);

// Returns the computations of a stage's first micro-batch behind its last send of backward, whose
// seconds are StageSeconds::delayed. None in the first stage, and on ranks that send nothing
// because the stage before has fewer.
std::vector<OpId> BehindSend(const Program& program);

}  // namespace stretto
