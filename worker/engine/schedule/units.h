// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of the units that passes search for.

#include <string>

#include "absl/strings/string_view.h"
#include "proto/base/check.h"
#include "worker/engine/program/program.h"

namespace stretto {

inline constexpr absl::string_view kMicroBatchUnit = "micro_batch";
inline constexpr absl::string_view kOptimizerUnit = "optimizer";

// Returns the index of the unit `name`. CHECKs that it exists.
inline UnitId FindUnit(const StepProgram& step, absl::string_view name) {
  for (UnitId unit : step.units.ids()) {
    if (step.units[unit].name == name) return unit;
  }
  STRETTO_CHECK(false && "no such unit");
  return -1;
}

}  // namespace stretto
