// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a host thread puts on streams for a step, worked out before the first one: a function of the
// programs, without a device.
//
// The ranks on a device share its streams. Their operations are issued in turn, each rank's in its
// own order; a collective among them is one item, when all have come to it.
//
// Lanes are streams. They are timed, and wait for each other, at marks: events at the ends of
// segments. A segment is a run of items of one lane and one instance, all compute or all
// communication and of one phase, into which no wait leads and out of whose middle none.
//
// Instances are played one after the other, each as a graph or call by call, and nothing joins them
// but marks: so an item that is the first of its lane in its instance also waits for the last of
// that lane before.

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/engine/program/program.h"

namespace stretto::cuda {

// One rank's program, and how it is cut into instances. Borrowed.
struct RankProgram {
  const StepProgram* step;
  const Program* program;  // its expansion
};

struct RankOp {
  int rank = 0;  // on this device
  OpId op = 0;   // of its program
  bool operator==(const RankOp&) const = default;
};

// An operation of one rank, or a collective of all.
struct Item {
  std::vector<RankOp> ops;
  LaneId lane = 0;
  std::vector<int> joins;    // items of the same instance to wait for, by position in it
  std::vector<int> carried;  // marks of earlier instances to wait for
  int begin_mark = -1;       // recorded before it, behind its waits; -1: none
  int end_mark = -1;         // recorded behind it; -1: none
  bool awaited = false;      // stands in a `joins`
  // Where room is left for collectives: computes, and nothing keeps one of another lane from being
  // under way meanwhile.
  bool under_collective = false;
};

struct IssuedInstance {
  UnitId unit = 0;
  std::vector<int> micro_batches;
  std::vector<OpId> first;    // [rank] its first operation
  std::vector<LaneId> lanes;  // in use, ascending
  std::vector<Item> items;
};

struct Segment {
  LaneId lane = 0;
  std::vector<RankOp> ops;
  int begin_mark = -1, end_mark = -1;  // one segment's end may be the next one's begin
};

struct IssuePlan {
  int marks = 0;
  std::vector<IssuedInstance> instances;
  std::vector<Segment> segments;  // in the order in which they are issued
};

// `leave_room`: work out under_collective, which else is false and no part of a shape.
// InvalidArgument: a program is not the expansion of its step, an operation waits for a later one,
// or the ranks' instances or collectives differ.
absl::StatusOr<IssuePlan> PlanIssue(absl::Span<const RankProgram> ranks, bool leave_room);

// Equal for instances that differ in nothing but which marks and micro-batches they mean, so that
// one graph serves them.
std::vector<int> ShapeOf(const IssuedInstance& instance, int slots);

}  // namespace stretto::cuda
