// The coordinator's table of schedules (coordinator/service/schedules.h) is the engine's: it names
// the same ones, and what it lets through, the engine builds.

#include "coordinator/service/schedules.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "coordinator/service/validate_spec.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {
namespace {

using google::protobuf::TextFormat;
using service::ScheduleRules;

v1alpha1::JobSpec SpecOf(const char* name, const std::string& parameters) {
  v1alpha1::JobSpec spec;
  EXPECT_TRUE(TextFormat::ParseFromString(
      "model { preset: 'llama-tiny' dropout: 0.1 } data { prefix: 'text' } "
      "parallelism { tp_size: 2 } steps: 1 micro_batch_size: 4 global_batch_size: 16",
      &spec));
  spec.mutable_schedule()->set_name(name);
  EXPECT_TRUE(
      TextFormat::ParseFromString(parameters, spec.mutable_schedule()->mutable_parameters()));
  return service::NormalizeSpec(spec);
}

absl::Status PlanOf(const v1alpha1::JobSpec& spec) {
  v1alpha1::AttachResponse task;
  task.set_data_root(testing::TempDir());
  task.set_checkpoint_root(testing::TempDir());
  *task.mutable_assign()->mutable_spec() = spec;
  task.mutable_assign()->set_job_id("job");
  const auto config = ConfigFrom(task, 0);
  return config.ok() ? BuildPlan(config->engine, 0).status() : config.status();
}

TEST(SchedulesTest, CoordinatorAndEngineKnowTheSameOnes) {
  std::vector<std::string> names;
  for (const ScheduleRules& rules : service::kSchedules) names.emplace_back(rules.name);
  EXPECT_EQ(names, ScheduleNames());
}

TEST(SchedulesTest, WhatTheCoordinatorAcceptsTheEngineBuilds) {
  const std::vector<std::string> parameters = {
      "",
      "slices: 1",
      "slices: 2",
      "slices: 4",
      "slice_sizes: [3, 1]",
      "splits: 1",
      "splits: 4",
      "sequence_parallel: true",
      "recompute: RECOMPUTE_SELECTIVE",
      "recompute: RECOMPUTE_FULL sequence_parallel: true",
      "defer_wgrads: 2",
      "merge_wgrads: 1",
      "merge_wgrads: 2",
      "merge_wgrads: 4 sequence_parallel: true",
      "auto_merge_wgrads: true",
      "slices: 3 defer_wgrads: 1 merge_wgrads: 2 recompute: RECOMPUTE_FULL",
  };
  int accepted = 0;
  for (const ScheduleRules& rules : service::kSchedules) {
    for (const std::string& text : parameters) {
      const v1alpha1::JobSpec spec = SpecOf(rules.name, text);
      if (!service::ValidateSpec(spec).ok()) continue;
      ++accepted;
      EXPECT_EQ(PlanOf(spec), absl::OkStatus()) << rules.name << " { " << text << " }";
    }
  }
  EXPECT_GT(accepted, 90);
}

// The other way: the coordinator refuses first what the engine would.
TEST(SchedulesTest, WhatTheEngineRefusesTheCoordinatorRefuses) {
  for (const ScheduleRules& rules : service::kSchedules) {
    for (const char* text :
         {"slices: 1", "slices: 2", "slices: 3", "splits: 2", "splits: 3", "defer_wgrads: 1",
          "defer_wgrads: -1", "merge_wgrads: 3", "merge_wgrads: -1"}) {
      const v1alpha1::JobSpec spec = SpecOf(rules.name, text);
      if (PlanOf(spec).ok()) continue;
      EXPECT_EQ(service::ValidateSpec(spec).code(), absl::StatusCode::kInvalidArgument)
          << rules.name << " { " << text << " }";
    }
  }
}

}  // namespace
}  // namespace stretto::trainer
