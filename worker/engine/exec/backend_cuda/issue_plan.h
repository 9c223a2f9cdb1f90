// SPDX-License-Identifier: Apache-2.0
#pragma once
// The plan of what a host thread enqueues for a step, computed once before the first step: a
// function of the programs, without a device.
//
// The ranks on a device share its streams. Their operations are issued in turn, each rank's in its
// own order; a collective among them is one item, issued when all have reached it.
//
// Lanes are streams. They are timed, and wait for each other, at marks, which are events at the
// ends of segments. A segment is a run of items of one lane and one instance, all of them compute
// or all communication, and of one phase. Waits lead only to its first item and only from its last.
//
// Instances are enqueued one after the other, each as a graph or call by call, and only marks order
// them. The first item of a lane in an instance therefore also waits for the last item of that lane
// before it.

#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/program/program.h"

namespace stretto::cuda {

// One rank's program, and its division into instances. Borrowed.
struct RankProgram {
  const StepProgram* step;
  const Program* program;  // its expansion
};

struct RankOp {
  LocalRank rank = 0;
  OpId op = 0;  // of its program
  bool operator==(const RankOp&) const = default;
};

// An operation of one rank, or a collective of all.
struct Item {
  std::vector<RankOp> ops;
  LaneId lane = 0;
  std::vector<int> joins;    // items of the same instance to wait for, by position in it
  std::vector<int> carried;  // marks of earlier instances to wait for
  int begin_mark = -1;       // recorded before it, after its waits; -1: none
  int end_mark = -1;         // recorded after it; -1: none
  bool awaited = false;      // is in the `joins` of another item
  // Whether it leaves room for collectives: it computes, and a collective of another lane may run
  // at the same time.
  bool under_collective = false;
};

struct IssuedInstance {
  UnitId unit = 0;
  std::vector<int> micro_batches;
  IdVector<LocalRank, OpId> first;  // [rank] its first operation
  std::vector<LaneId> lanes;        // the lanes that it uses, ascending
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

// Plans the step. Without `leave_room`, under_collective is false everywhere and therefore not part
// of a shape. Errors: InvalidArgument, when a program is not the expansion of its step, when an
// operation waits for a later one, or when the ranks' instances or collectives differ.
absl::StatusOr<IssuePlan> PlanIssue(const IdVector<LocalRank, RankProgram>& ranks, bool leave_room);

// Returns a key that is equal for instances that differ only in their marks and in micro-batches of
// addresses, so that one graph serves them. `period`: that of the addresses.
std::vector<int> ShapeOf(const IssuedInstance& instance, int period);

// Returns the least number of slots such that the micro-batches of every instance, which are loaded
// together, have slots of their own: micro-batch modulo slots.
int StagingSlots(const StepProgram& step);
// Returns the number of micro-batches after which all slots repeat, those of buffers and those of
// staging.
int AddressPeriod(const StepProgram& step);

}  // namespace stretto::cuda
