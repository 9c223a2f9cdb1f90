// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/schedules.h"

namespace stretto {

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const ScheduleRules& rules : kSchedules) names.emplace_back(rules.name);
  return names;
}

std::vector<int> EvenSlices(int sequences, int slices) {
  std::vector<int> sizes(slices, sequences / slices);
  for (int i = 0; i < sequences % slices; ++i) ++sizes[i];
  return sizes;
}

}  // namespace stretto
