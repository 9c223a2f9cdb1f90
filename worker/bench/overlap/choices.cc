// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/choices.h"

#include <utility>

#include "proto/spec/schedules.h"

namespace stretto::bench {

std::vector<std::string> SchedulesOf(const OverlapOptions& options) {
  if (!options.schedules.empty()) return options.schedules;
  std::vector<std::string> names;
  for (const ScheduleRules& rules : kSchedules) {
    // One micro-batch has no other to be woven with.
    if (!rules.weaves || options.micro_batches > 1) names.emplace_back(rules.name);
  }
  return names;
}

std::vector<EngineSpec> ChoicesOf(const OverlapOptions& options, const std::string& schedule) {
  std::vector<EngineSpec> specs;
  for (int sequence_parallel : options.sequence_parallel) {
    for (int splits : options.splits) {
      for (int slices : options.slices) {
        for (int defer : options.defer_wgrads) {
          if (slices > options.batch) continue;
          EngineSpec spec = options.Unsliced();
          spec.schedule.name = schedule;
          spec.schedule.slices = EvenSlices(options.batch, slices);
          spec.schedule.splits = splits;
          spec.schedule.sequence_parallel = sequence_parallel != 0;
          spec.schedule.defer_wgrads = defer;
          specs.push_back(std::move(spec));
        }
      }
    }
  }
  return specs;
}

}  // namespace stretto::bench
