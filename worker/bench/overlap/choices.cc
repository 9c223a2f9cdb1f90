// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/choices.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "proto/spec/schedules.h"
#include "worker/bench/overlap/plans.h"

namespace stretto::bench {

std::vector<std::string> SchedulesOf(const OverlapOptions& options) {
  if (!options.schedules.empty()) return options.schedules;
  std::vector<std::string> names;
  for (const ScheduleRules& rules : kSchedules) {
    // One micro-batch has no other to be woven with.
    if (!rules.weaves || absl::c_any_of(options.Divisions(), [](int m) { return m > 1; })) {
      names.emplace_back(rules.name);
    }
  }
  return names;
}

std::vector<Choice> ChoicesOf(const OverlapOptions& options, const std::string& schedule) {
  const ScheduleRules* rules = FindSchedule(schedule);
  const bool weaves = rules != nullptr && rules->weaves;
  const std::vector<std::string> plans = weaves ? PlansOf(options) : std::vector<std::string>{""};
  std::vector<Choice> choices;
  const auto add_deferrals = [&](EngineSpec spec) {
    for (int defer : options.defer_wgrads) {
      spec.schedule.defer_wgrads = defer;
      for (const std::string& plan : plans) choices.push_back({spec, plan});
    }
  };
  for (int micro_batches : options.Divisions()) {
    EngineSpec spec = options.Divided(micro_batches);
    spec.schedule.name = schedule;
    for (int sequence_parallel : options.sequence_parallel) {
      spec.schedule.sequence_parallel = sequence_parallel != 0;
      for (int splits : options.splits) {
        spec.schedule.splits = splits;
        for (int slices : options.slices) {
          if (slices > spec.micro_batch_size) continue;
          spec.schedule.slices = EvenSlices(spec.micro_batch_size, slices);
          add_deferrals(spec);
        }
      }
    }
  }
  return choices;
}

std::string Describe(const Choice& choice) {
  const ScheduleSpec& schedule = choice.spec.schedule;
  return absl::StrCat(
      schedule.name, ", ", choice.spec.micro_batches, " x ", choice.spec.micro_batch_size,
      " sequences, slices ", schedule.slices.size(), ", splits ", schedule.splits,
      schedule.sequence_parallel ? ", sequence parallel" : "",
      schedule.defer_wgrads > 0 ? absl::StrCat(", wgrads deferred by ", schedule.defer_wgrads) : "",
      choice.plan.empty() ? "" : absl::StrCat(", ", choice.plan, " plan"));
}

}  // namespace stretto::bench
