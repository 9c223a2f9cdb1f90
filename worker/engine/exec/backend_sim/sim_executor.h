// SPDX-License-Identifier: Apache-2.0
#pragma once
// The simulated backend: an Executor whose operations take the time that a cost model gives them
// and compute nothing. Time is its own: the first step starts at 0, the next where it ends.

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The program stands for every rank of its job. Run never fails and never blocks, so Cancel has
// nothing to do; View is a CHECK, there is no memory. communication_cpu_seconds is the share of a
// core that the contention takes, over the time that anything is in flight. Errors: those of
// Simulate, and of Validate(cost).
absl::StatusOr<std::unique_ptr<Executor>> MakeSimExecutor(Program program, const CostModel& cost);

}  // namespace stretto
