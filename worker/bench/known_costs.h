// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much of a simulated step has times that were measured, because costs of another model or of
// other shapes would leave all of it to the rates of the flags.

#include <string>

#include "absl/status/status.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/program/program.h"

namespace stretto {

struct KnownCosts {
  int computations = 0, known_computations = 0;
  int known_products = 0;  // of the known computations
  int collectives = 0, known_collectives = 0;

  void operator+=(const KnownCosts& other);
};

// Adds the operations of the program, and those whose times the table has. Transfers between stages
// are neither.
void CountKnown(const Program& program, const CostTable& table, KnownCosts* known);

// "96 of 96 computations, 0 of 32 collectives".
std::string KnownText(const KnownCosts& known);

// Errors: InvalidArgument, where the table has times and none of them is of the counted operations;
// or times of matrix products, but none of those. Models may share the shapes of what is small: the
// norm of all gradients is one number in each of them.
absl::Status ExpectKnown(const KnownCosts& known, const CostTable& table);

}  // namespace stretto
