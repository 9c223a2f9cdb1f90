// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schedules that a spec may name, and the parameters that each takes: the rows of
// schedules.inc. The engine declares the pass of each row, which orders a step
// (worker/engine/schedule/passes.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto {

struct ScheduleRules {
  enum class Slices : uint8_t { kNone, kTwo, kAny, kOneOrMore };

  const char* name;
  const char* help;  // one line
  // kTwo: a published order that is defined for two slices. kOneOrMore: as kAny, but the schedule
  // needs no second slice to hide communication, so one is the default.
  Slices slices;
  bool splits = false;       // takes column pieces of products
  bool defers = false;       // may defer weight gradients, and closes the ends of micro-batches
  bool synchronous = false;  // nothing overlaps a collective
  bool weaves = false;       // weaves forward of a micro-batch with backward of the one before

  constexpr bool sliced() const { return slices != Slices::kNone; }
  // Of a job that does not say how many.
  constexpr int default_slices() const { return slices == Slices::kOneOrMore ? 1 : 2; }
};

inline constexpr auto kSchedules = [] {
  using Slices = ScheduleRules::Slices;
  return std::to_array<ScheduleRules>({
#define STRETTO_SCHEDULE(pass, ...) {__VA_ARGS__},
#include "proto/spec/schedules.inc"
#undef STRETTO_SCHEDULE
  });
}();

// Returns null if no schedule has this name.
constexpr const ScheduleRules* FindSchedule(absl::string_view name) {
  for (const ScheduleRules& rules : kSchedules) {
    if (name == rules.name) return &rules;
  }
  return nullptr;
}

std::vector<std::string> ScheduleNames();

// Divides `sequences` into `slices` parts of at least 1, as equal as possible, larger ones first.
std::vector<int> EvenSlices(int sequences, int slices);

}  // namespace stretto
