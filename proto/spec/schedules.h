// SPDX-License-Identifier: Apache-2.0
#pragma once
// The schedules that a spec may name, and the parameters that each takes. The engine adds to every
// row the pass that orders a step (worker/engine/schedule/passes.h); a schedule without a pass does
// not compile.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto {

struct ScheduleRules {
  enum class Slices : uint8_t { kNone, kTwo, kAny };

  const char* name;
  const char* help;          // one line
  Slices slices;             // kTwo: a published order that is defined for two slices
  bool splits = false;       // takes column pieces of products
  bool defers = false;       // may defer weight gradients, and closes the ends of micro-batches
  bool synchronous = false;  // nothing overlaps a collective

  constexpr bool sliced() const { return slices != Slices::kNone; }
};

inline constexpr std::array<ScheduleRules, 10> kSchedules = {{
    {.name = "megatron_sync",
     .help = "nothing overlaps",
     .slices = ScheduleRules::Slices::kNone,
     .synchronous = true},
    {.name = "megatron_async",
     .help = "backward collectives overlap with their own weight gradient",
     .slices = ScheduleRules::Slices::kNone},
    {.name = "domino_row",
     .help = "slices of the batch take turns, across layers, in both passes",
     .slices = ScheduleRules::Slices::kAny,
     .defers = true},
    {.name = "domino_col",
     .help = "products before a collective are computed in column pieces",
     .slices = ScheduleRules::Slices::kNone,
     .splits = true,
     .defers = true},
    {.name = "domino_hybrid",
     .help = "slices and column pieces together",
     .slices = ScheduleRules::Slices::kAny,
     .splits = true,
     .defers = true},
    {.name = "domino_paper",
     .help = "the order that the Domino paper draws, for comparison",
     .slices = ScheduleRules::Slices::kTwo},
    {.name = "domino_release1",
     .help = "the order of DeepSpeed's first Domino release, for comparison",
     .slices = ScheduleRules::Slices::kTwo},
    {.name = "domino_intra",
     .help = "the order of DeepSpeed's Domino within a layer, for comparison",
     .slices = ScheduleRules::Slices::kTwo},
    {.name = "domino_inter",
     .help = "the order of DeepSpeed's Domino across layers, for comparison",
     .slices = ScheduleRules::Slices::kTwo},
    {.name = "nanotron",
     .help = "the order of nanotron's Domino branch, for comparison",
     .slices = ScheduleRules::Slices::kTwo},
}};

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
