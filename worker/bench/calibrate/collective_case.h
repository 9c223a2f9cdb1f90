// SPDX-License-Identifier: Apache-2.0
#pragma once
// The collectives that a calibration measures, and the program of one collective and one
// computation at once.

#include <map>
#include <string>

#include "worker/bench/kernels/measure.h"
#include "worker/engine/cost/contention.h"
#include "worker/engine/program/program.h"

namespace stretto::bench {

// One collective of a program, on buffers of its own.
struct CollectiveCase {
  std::string operation = {};  // OperationKey
  CollectiveKind kind = CollectiveKind::kBarrier;
  int ranks = 0;
  int count = 0;  // number of such calls in the step
  int64_t wire_bytes = 0;
  IdVector<BufferId, Buffer> buffers = {};
  Op op = {};  // over `buffers`; its group is that of the program
};

// Returns the collectives of a program that differ, by a name on which the members of a group
// agree: the group, the kind or "transfer", and what travels.
std::map<std::string, CollectiveCase> CollectivesOf(const Program& program);

// Adds `calls` of a collective to a step, in sequence on a lane of their own. `groups` are those of
// the rank, as numbered in the case's program.
void AddCalls(const CollectiveCase& collective, int calls, const IdVector<GroupId, Group>& groups,
              StepProgram* step);

// Adds two calls of a collective to a step of one unit of computations without waits: operation 0,
// for which the computations wait, and the last one, which the end of computation number `release`
// releases, counted from 0.
void AddReleased(const CollectiveCase& collective, int release,
                 const IdVector<GroupId, Group>& groups, StepProgram* step);

// What a computation and collectives that ran at once achieved.
struct Progress {
  double seconds = 0;  // during which both ran
  // Work done in that time, in seconds that it takes alone.
  double compute = 0, communication = 0;

  // How many times as long each side takes beside the other. May be below 1 by chance; 1 of a
  // side that did nothing.
  double compute_slowdown() const;
  double communication_slowdown() const;
};

// The first `copies` intervals are of computations that take `compute_alone` each, the others of
// collectives that take `communication_alone` each.
Progress ProgressOf(absl::Span<const Interval> intervals, size_t copies, double compute_alone,
                    double communication_alone);

// A collective beside a computation that lasts longer.
struct CollectiveBeside {
  double seconds = 0;   // alone
  double slowdown = 1;  // how many times as long it takes
};

// Whether two collectives differ enough in time to tell a wait from a rate.
bool AreOfTwoSizes(double shorter, double longer);

// Returns the seconds that collectives of one kind lose beside the computation however large they
// are, by the line through the two, which are of two sizes. At least 0, and so much that none is
// faster than alone.
double TurnOf(const CollectiveBeside& shorter, const CollectiveBeside& longer);

// Returns what a computation that takes `compute` times as long beside a collective and this one
// lose, if the collective first waits for `turn` seconds. While it waits the computation loses
// nothing, so it has lost all in the rest of the time, of which there is some: no share exceeds
// kMostContention.
Contention ContentionOf(double compute, const CollectiveBeside& collective, double turn);

}  // namespace stretto::bench
