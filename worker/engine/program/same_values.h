// SPDX-License-Identifier: Apache-2.0
#pragma once
// Proves that a program computes what another one computes, whatever its order, lanes, waits,
// copies and addresses.
//
// The values of a canonical program are numbered: each operation gives its outputs values of their
// own, unless an operation of the same kind, attributes and shapes has already computed with the
// same operands. Every operation of the other program must then be one of the canonical program's:
// what its operands hold, by the last writer of each piece of their memory, must be operands of one
// of its kind there. So a copy too few, a wrong address, or a contribution out of its turn shows in
// the first operation that finds another value, and an operation that runs twice (recomputation)
// has the values of the first. A sum in place holds the value of its last contribution, whose
// operand is the sum before it, so sums keep their order and with it their bits.
//
// A collective is known by its group, its tag and how many of its group had that tag before. Where
// all members of a group make the same calls in the same order (VerifyRanks, VerifySkeletons),
// calls that meet are therefore the same call of the canonical programs. If each rank's program
// passes CheckSameValues as well, all ranks together compute what their canonical programs compute:
// by induction over happens-before, whatever a collective brings to a rank is what it brings there.
//
// Linear in the number of operations.

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/program/happens_before.h"
#include "worker/engine/program/program.h"

namespace stretto {

// How the sums of weight gradients are compared. kInAnyOrder: by their contributions, in any order,
// and a product over the rows of several as the list of its parts. For what merges them.
enum class Sums : uint8_t { kInOrder, kInAnyOrder };

class CanonicalValues {
 public:
  // Numbers the values of a step that runs in program order. Errors: InvalidArgument, two
  // buffers outside activations have one name, or, in any order, two contributions are equal.
  static absl::StatusOr<CanonicalValues> Of(StepProgram canonical, Sums sums = Sums::kInOrder);

 private:
  friend absl::Status CheckSameValues(const CanonicalValues&, const Program&, const HappensBefore&);
  struct Numbering;
  std::shared_ptr<const Numbering> numbering_;
};

// Whether `program` computes every value of the canonical program and no other, and leaves the same
// in the memory that the host reads: all but activations, known by their names. `order` is of
// `program`, which must have no races (race_check.h). Errors: InvalidArgument naming the operation,
// the operand, what it holds and what is expected.
absl::Status CheckSameValues(const CanonicalValues& canonical, const Program& program,
                             const HappensBefore& order);

}  // namespace stretto
