// SPDX-License-Identifier: Apache-2.0
#pragma once
// The plan of what a host thread enqueues for a step, computed once before the first step: a
// function of the programs, without a device.
//
// One rank's operations are enqueued in the order of issue (worker/engine/program/issue_order.h).
// Ranks that share a device share its streams, and their operations are merged (merge_ranks.h); a
// collective or a transfer among them is one item, enqueued when all members have reached it.
//
// Lanes are streams; lanes of several ranks that have the same name are one. They are timed, and
// wait for each other, at marks, which are events at the ends of segments. A segment is a run of
// items of one lane and one instance that compute in one phase, or a single collective, so that
// marks tell where a rank is in its calls. Waits lead only to its first item, and only from its
// last.
//
// Instances are enqueued one after the other, each as a graph or call by call, and only marks order
// them. The first item of a lane in an instance therefore also waits for the last item of that lane
// before it.

#include <string>
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

// An operation of one rank, or a collective of the members of a group, in the order of the group.
struct Item {
  std::vector<RankOp> ops;
  LaneId lane = 0;           // of IssuePlan::lanes
  std::vector<int> joins;    // items of the same instance to wait for, by position in it
  std::vector<int> carried;  // marks of earlier instances to wait for
  int begin_mark = -1;       // recorded before it, after its waits; -1: none
  int end_mark = -1;         // recorded after it; -1: none
  bool awaited = false;      // is in the `joins` of another item
  // Whether it leaves room for collectives: it computes, and a collective of another lane may run
  // at the same time.
  bool under_collective = false;
};

// What is enqueued as one graph: an instance of the step, its operations between transfers, or
// instances of several ranks that need each other. Transfers to other devices are call by call.
struct IssuedInstance {
  bool transfers = false;  // it is nothing but transfers to other devices
  // The micro-batches whose own buffers (kPerMicroBatch) it uses, and those of them whose it
  // writes, ascending.
  std::vector<int> micro_batches, written;
  std::vector<LaneId> lanes;  // the lanes that it uses, ascending
  std::vector<Item> items;
};

struct Segment {
  LaneId lane = 0;
  std::vector<RankOp> ops;
  int begin_mark = -1, end_mark = -1;  // one segment's end may be the next one's begin
};

struct IssuePlan {
  int marks = 0;
  IdVector<LaneId, std::string> lanes;                    // names of the lanes of all ranks
  IdVector<LocalRank, IdVector<LaneId, LaneId>> lane_of;  // a rank's lanes among them
  std::vector<IssuedInstance> instances;
  std::vector<Segment> segments;  // in the order in which they are issued
  // The least number of slots such that the micro-batches of every instance, which are loaded
  // together, have slots of their own: micro-batch modulo slots.
  int staging_slots = 1;
  std::vector<LaneId> staged;  // lanes that use buffers of micro-batches, ascending
};

// Plans the step. Without `leave_room`, under_collective is false everywhere and therefore not part
// of a shape. Errors: InvalidArgument, when a program is not the expansion of its step, when an
// operation waits for a later one, or those of MergeRanks.
absl::StatusOr<IssuePlan> PlanIssue(const IdVector<LocalRank, RankProgram>& ranks, bool leave_room);

// Returns a key that is equal for instances of the same operations on the same memory, which may
// differ in their marks, so that one graph serves them.
std::vector<int> ShapeOf(const IdVector<LocalRank, RankProgram>& ranks, const IssuePlan& plan,
                         const IssuedInstance& instance);

}  // namespace stretto::cuda
