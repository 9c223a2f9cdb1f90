// SPDX-License-Identifier: Apache-2.0
#pragma once
// What other ranks can observe of a program: the communication operations of each group, in order,
// and what must be complete on this rank before each of them starts. Ranks exchange skeletons
// before they run their programs, so that a mismatch is refused instead of a hang or a broken
// connection.
//
// A program communicates correctly with its peers if and only if its skeleton does: VerifySkeletons
// decides what VerifyRanks decides for whole programs, at a fraction of the size.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/engine/program/program.h"

namespace stretto {

struct Skeleton {
  struct Call {
    // Of kind, tag, attributes, type and size; equal on all members of the group. Different calls
    // have the same checksum with probability 2^-32.
    uint32_t checksum = 0;
    OpId op;  // in the program
    bool operator==(const Call&) const = default;
  };

  IdVector<GroupId, Group> groups;
  IdVector<GroupId, std::vector<Call>> calls;  // in the order of the group's lane
  // [call * groups + other]: how many calls of group `other` complete before this call starts, at
  // least its position for its own group.
  IdVector<GroupId, std::vector<int32_t>> before;
  // The groups of all calls in the order in which the rank enqueues them, where a call may start
  // only when all before it have started (issue_order.h). Empty: there is no such order.
  std::vector<GroupId> issued;

  bool operator==(const Skeleton&) const = default;
};

// Errors: those of HappensBefore::Build.
absl::StatusOr<Skeleton> SkeletonOf(const Program& program);

// Bytes for other ranks, of this build's format. Unpack errors: InvalidArgument, for bytes that are
// not a skeleton; it requests no more memory than the bytes describe.
std::string Pack(const Skeleton& skeleton);
absl::StatusOr<Skeleton> Unpack(absl::string_view bytes);

// Rehearses the skeletons of all ranks, in rank order; ranks may share one. Errors:
// InvalidArgument, naming the group, the position in it, and ranks with their operations: members
// see a group differently, make different calls, or wait for each other forever. What can start
// stays able to, so one rehearsal that ends proves that no timing deadlocks.
absl::Status VerifySkeletons(absl::Span<const Skeleton* const> skeletons);

}  // namespace stretto
