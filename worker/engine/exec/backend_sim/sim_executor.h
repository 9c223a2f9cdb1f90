// SPDX-License-Identifier: Apache-2.0
#pragma once
// The simulated backend: an Executor whose operations take the time that a cost model gives them
// and compute nothing. It has its own clock: the first step starts at 0, and each step starts where
// the one before ended.

#include <memory>

#include "absl/status/statusor.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"

namespace stretto {

// Makes an executor whose program stands for every rank of its job. Run never fails and never
// blocks, so Cancel has nothing to do. There is no memory: HostView is a CHECK, and Read and Write
// return Unimplemented. communication_cpu_seconds is the share of a core that the contention takes,
// over the time in which a collective is in flight. Errors: those of Simulate and of
// Validate(cost).
absl::StatusOr<std::unique_ptr<Executor>> MakeSimExecutor(const Program& program,
                                                          const CostModel& cost);

}  // namespace stretto
