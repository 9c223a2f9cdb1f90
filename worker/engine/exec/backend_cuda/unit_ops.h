// SPDX-License-Identifier: Apache-2.0
#pragma once
// The way back from the operations of a program to those of the units that it expands.

#include "worker/engine/program/program.h"

namespace stretto::cuda {

// Borrows the step.
class UnitOps {
 public:
  explicit UnitOps(const StepProgram& step);

  struct Place {
    UnitId unit;
    OpId position;    // in the unit
    int micro_batch;  // -1: none
  };
  Place Find(OpId op) const;
  const Op& of(OpId op) const {
    const Place place = Find(op);
    return step_->units[place.unit].ops[place.position];
  }
  // Returns the first operation of an instance in the program.
  OpId first(InstanceId instance) const { return first_[instance]; }

 private:
  const StepProgram* step_;
  IdVector<InstanceId, OpId> first_;
};

}  // namespace stretto::cuda
