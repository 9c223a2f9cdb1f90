#pragma once
// The schedules that a spec may name, and the parameters that each takes. The engine has a table of
// its own (worker/engine/schedule/plan.cc), which the coordinator must not link; a test of the
// trainer (tests/worker/trainer/schedules_test.cc) keeps the two equal.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto::service {

struct ScheduleRules {
  enum class Slices : uint8_t { kNone, kTwo, kAny };

  const char* name;
  Slices slices;        // kTwo: a published order, drawn for two
  bool splits = false;  // column pieces of products
  bool defers = false;  // weight gradients
  bool sliced() const { return slices != Slices::kNone; }
};

inline constexpr std::array<ScheduleRules, 10> kSchedules = {{
    {.name = "megatron_sync", .slices = ScheduleRules::Slices::kNone},
    {.name = "megatron_async", .slices = ScheduleRules::Slices::kNone},
    {.name = "domino_row", .slices = ScheduleRules::Slices::kAny, .defers = true},
    {.name = "domino_col", .slices = ScheduleRules::Slices::kNone, .splits = true, .defers = true},
    {.name = "domino_hybrid",
     .slices = ScheduleRules::Slices::kAny,
     .splits = true,
     .defers = true},
    {.name = "domino_paper", .slices = ScheduleRules::Slices::kTwo},
    {.name = "domino_release1", .slices = ScheduleRules::Slices::kTwo},
    {.name = "domino_intra", .slices = ScheduleRules::Slices::kTwo},
    {.name = "domino_inter", .slices = ScheduleRules::Slices::kTwo},
    {.name = "nanotron", .slices = ScheduleRules::Slices::kTwo},
}};

// Null when no schedule has this name.
const ScheduleRules* FindSchedule(absl::string_view name);

// Field names of ScheduleParameters, in their order there.
std::vector<std::string> ParametersOf(const ScheduleRules& rules);

}  // namespace stretto::service
