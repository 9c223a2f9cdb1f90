#include "coordinator/service/schedules.h"

namespace stretto::service {

const ScheduleRules* FindSchedule(absl::string_view name) {
  for (const ScheduleRules& rules : kSchedules) {
    if (name == rules.name) return &rules;
  }
  return nullptr;
}

std::vector<std::string> ParametersOf(const ScheduleRules& rules) {
  std::vector<std::string> names;
  if (rules.sliced()) names.insert(names.end(), {"slices", "slice_sizes"});
  if (rules.splits) names.emplace_back("splits");
  names.insert(names.end(), {"sequence_parallel", "recompute"});
  if (rules.defers) names.emplace_back("defer_wgrads");
  names.insert(names.end(), {"merge_wgrads", "auto_merge_wgrads"});
  return names;
}

}  // namespace stretto::service
