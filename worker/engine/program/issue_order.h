// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which a host thread enqueues the operations of a step on a device.
//
// Lanes are queues of the device, so the order between operations of different lanes matters in one
// place: a GPU starts communication in the order in which it was enqueued (NCCL_LAUNCH_ORDER_
// IMPLICIT). A communication may start only when all that were enqueued before it have started,
// which VerifySkeletons (skeleton.h) rehearses.
//
// Operations are enqueued in program order, except receives, which would begin when the pass before
// them has ended, and nothing would hide the transfer. A receive cannot start before the one before
// it on its lane is done, and holds up all calls that are enqueued behind it until then. So it is
// enqueued as early as it holds up nothing else: directly before the first call that waits for that
// earlier receive anyway, or later, once there is room for it. With one slice that is a pass early.
//
// The first receive of a lane holds up nothing. It is enqueued behind what this rank sends of the
// same micro-batch, on which it depends: it must not depend on what the host has yet to enqueue,
// because libraries may wait for the whole device in their first calls. If the rank sends nothing
// of it before, the receive stays in place.
//
// Transfers between stages are runs of their own. A graph holds up the stream that it is launched
// on until all of it is done, and a transfer may take longer than the next pass.

#include <vector>

#include "worker/engine/program/program.h"

namespace stretto {

// Operations of one instance that are enqueued together: only transfers, or none.
struct IssuedRun {
  InstanceId instance = 0;
  std::vector<OpId> ops;  // of its unit, ascending, at least one
  bool transfers = false;
  bool operator==(const IssuedRun&) const = default;
};

// Returns the step in the order in which it is enqueued. Each operation is in one run, behind all
// that it waits for and behind the operations of its lane that precede it. `step` must be verified.
std::vector<IssuedRun> IssueOrder(const StepProgram& step);

// In both functions below, `order` is IssueOrder(step).

// Returns the groups of all communication in that order. Calls of one group come in lane order, so
// this defines which call comes when.
std::vector<GroupId> CallsInIssueOrder(const StepProgram& step,
                                       const std::vector<IssuedRun>& order);

// Returns `program`, the expansion of `step`, with waits for what a device and its host hold up
// besides: every run waits for all of the run of computation before it. A device waits for less,
// because its graphs take turns on several streams and its host may be several runs ahead. A
// rehearsal that ends with more waits also ends with fewer.
Program WithRunsInTurn(const StepProgram& step, const std::vector<IssuedRun>& order,
                       Program program);

}  // namespace stretto
