// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a program computes other values than its canonical program, in words, for same_values.cc.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/engine/program/value_walk.h"

namespace stretto {

// Where an operation of a step is: an instance and its unit's operation.
struct StepPlace {
  InstanceId instance;
  OpId op;
};

// Every member returns InvalidArgument that names what was found and what was expected.
class ValueReport {
 public:
  // Borrows all. `first` has the first operation of the canonical step for each number.
  ValueReport(const StepProgram& canonical, const ValueTables& tables,
              const std::vector<StepPlace>& first)
      : canonical_(canonical), tables_(tables), first_(first) {}

  // Words of an operation that the canonical program does not have, or of a contribution that it
  // does not have once more.
  absl::Status Unknown(const Program& program, OpId id, Numbers::Words words) const;
  // A number that no operation has.
  absl::Status Missing(int operation) const;
  // Of a buffer that outlives the step.
  absl::Status NoBuffer(const std::string& name) const;
  absl::Status Left(const std::string& name, Numbers::Words found, Numbers::Words wanted) const;

 private:
  Op At(int number) const;
  int Closest(const Op& op, Numbers::Words words) const;
  std::string Describe(const HeldPiece& piece) const;
  std::string Difference(const std::vector<HeldPiece>& found,
                         const std::vector<HeldPiece>& expected) const;

  const StepProgram& canonical_;
  const ValueTables& tables_;
  const std::vector<StepPlace>& first_;
};

}  // namespace stretto
