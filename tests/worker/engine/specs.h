// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small specs that the engine's tests build programs from.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/spec/schedules.h"
#include "tests/worker/engine/layout.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {

inline EngineSpec SpecOf(const Layout& layout) {
  return SpecOf(layout, {.hidden = 8,
                         .heads = 4,
                         .kv_heads = layout.family == Family::kGpt ? 0 : 2,
                         .ffn_hidden = 16,
                         .sequence_length = 4,
                         .vocab_size = 100});
}

inline Layout Domino(std::vector<int> slices, int micro_batches = 1, int layers = 2) {
  return {.schedule = "domino_row",
          .slices = std::move(slices),
          .micro_batches = micro_batches,
          .layers = layers};
}

// Two sequences, cut as the schedule cuts them, and as few micro-batches as it takes.
inline Layout LayoutOf(const std::string& schedule, int layers = 2) {
  const ScheduleRules& rules = *FindSchedule(schedule);
  return {.schedule = schedule,
          .slices = rules.sliced() ? std::vector<int>{1, 1} : std::vector<int>{2},
          .splits = rules.splits ? 2 : 1,
          .micro_batches = rules.weaves ? 2 : 1,
          .layers = layers};
}

// Those of a step that is one micro-batch after the other, in a stage or without any. The others
// take neither stages nor weight gradients merged over micro-batches.
inline std::vector<std::string> UnwovenSchedules() {
  std::vector<std::string> names;
  for (const ScheduleRules& rules : kSchedules) {
    if (!rules.weaves) names.emplace_back(rules.name);
  }
  return names;
}

// The plan of a spec that must be valid.
inline RankPlan PlanOf(const EngineSpec& spec, Rank rank = 0,
                       Variant variant = Variant::kSchedule) {
  absl::StatusOr<RankPlan> plan = BuildPlan(spec, rank, variant);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : RankPlan{};
}

inline RankPlan PlanOf(const Layout& layout, Rank rank = 0, Variant variant = Variant::kSchedule) {
  return PlanOf(SpecOf(layout), rank, variant);
}

// The values of the emitted step.
inline CanonicalValues EmittedValues(const EngineSpec& spec, Rank rank = 0) {
  absl::StatusOr<CanonicalValues> values = CanonicalValues::Of(Emit(spec, rank).step);
  EXPECT_TRUE(values.ok()) << values.status();
  return *std::move(values);
}

// A few layouts that cover sizes, types and micro-batches of an unsliced and a sliced schedule.
inline std::vector<Layout> ManyLayouts() {
  std::vector<Layout> layouts;
  for (int tp_size : {1, 2}) {
    for (int micro_batches : {1, 2}) {
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        Layout layout = {
            .tp_size = tp_size, .slices = {3}, .micro_batches = micro_batches, .dtype = dtype};
        layouts.push_back(layout);
        layout.schedule = "domino_row";
        for (const std::vector<int>& slices : {std::vector<int>{3}, {1, 2}, {1, 1, 1}, {3, 1}}) {
          layout.slices = slices;
          layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

// Every schedule with every family, with and without sequence parallelism, however much it
// recomputes, and with updates at once and other options of the model.
inline std::vector<Layout> EverySchedule(int micro_batches = 2) {
  std::vector<Layout> layouts;
  for (const std::string& name : ScheduleNames()) {
    for (Family family : EveryFamily()) {
      for (bool sequence_parallel : {false, true}) {
        for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
          Layout layout = LayoutOf(name);
          layout.micro_batches = micro_batches;
          layout.family = family;
          layout.sequence_parallel = sequence_parallel;
          layout.recompute = recompute;
          layouts.push_back(layout);
          layout.update_at_once = recompute == Recompute::kNone;
          layout.other_options = layout.update_at_once;
          if (layout.update_at_once) layouts.push_back(layout);
        }
      }
    }
  }
  return layouts;
}

}  // namespace stretto
