// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/choices.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/spec/schedules.h"
#include "worker/bench/overlap/plans.h"

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

std::vector<Choice> ChoicesOf(const OverlapOptions& options, const std::string& schedule) {
  const ScheduleRules* rules = FindSchedule(schedule);
  const bool weaves = rules != nullptr && rules->weaves;
  const std::vector<std::string> plans = weaves ? PlansOf(options) : std::vector<std::string>{""};
  std::vector<Choice> choices;
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
          for (const std::string& plan : plans) choices.push_back({spec, plan});
        }
      }
    }
  }
  return choices;
}

std::string Describe(const Choice& choice) {
  const ScheduleSpec& schedule = choice.spec.schedule;
  return absl::StrCat(
      schedule.name, ", slices ", schedule.slices.size(), ", splits ", schedule.splits,
      schedule.sequence_parallel ? ", sequence parallel" : "",
      schedule.defer_wgrads > 0 ? absl::StrCat(", wgrads deferred by ", schedule.defer_wgrads) : "",
      choice.plan.empty() ? "" : absl::StrCat(", ", choice.plan, " plan"));
}

}  // namespace stretto::bench
