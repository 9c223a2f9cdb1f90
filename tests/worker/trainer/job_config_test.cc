#include "worker/trainer/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace stretto::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1alpha1::AttachResponse Task() {
  const std::string root = testing::TempDir() + "/job_config_test";
  std::filesystem::create_directories(root);
  v1alpha1::AttachResponse task;
  task.set_data_root(root);
  task.set_checkpoint_root(root);
  v1alpha1::Assign* assign = task.mutable_assign();
  assign->set_job_id("job");
  assign->set_job_uid("0123456789abcdef");
  v1alpha1::JobSpec* spec = assign->mutable_spec();
  spec->mutable_model()->set_preset("gpt-tiny");
  spec->mutable_data()->set_prefix("text");
  spec->mutable_parallelism()->set_tp_size(2);
  spec->mutable_schedule()->set_name("domino_row");
  spec->mutable_schedule()->mutable_parameters()->set_slices(2);
  spec->mutable_optimizer()->set_learning_rate(1e-3);
  spec->mutable_optimizer()->set_min_learning_rate(1e-4);
  spec->mutable_optimizer()->set_warmup_steps(10);
  spec->mutable_optimizer()->set_decay_steps(110);
  spec->set_micro_batch_size(5);
  spec->set_global_batch_size(10);
  spec->set_steps(100);
  return task;
}

TEST(JobConfigTest, SlicesAreAsEqualAsCanBe) {
  const auto config = ConfigFrom(Task(), 1);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->engine.schedule.slices, ElementsAre(3, 2));
  EXPECT_EQ(config->engine.micro_batches, 2);
  EXPECT_EQ(config->sequences_per_step(), 10);
}

TEST(JobConfigTest, LearningRateWarmsUpThenFollowsTheCosine) {
  const OptimizerConfig optimizer = ConfigFrom(Task(), 0)->optimizer;
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(1), 1e-4);
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(10), 1e-3);
  EXPECT_NEAR(optimizer.LearningRateAt(60), 0.5 * (1e-3 + 1e-4), 1e-12);
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(110), 1e-4);
  EXPECT_DOUBLE_EQ(optimizer.LearningRateAt(1000), 1e-4);
}

TEST(JobConfigTest, HashCoversWhatChangesNumbersAndNothingElse) {
  const std::string hash = ConfigFrom(Task(), 0)->spec_hash;
  v1alpha1::AttachResponse longer = Task();
  longer.mutable_assign()->mutable_spec()->set_steps(200);
  EXPECT_EQ(ConfigFrom(longer, 1)->spec_hash, hash);
  v1alpha1::AttachResponse seeded = Task();
  seeded.mutable_assign()->mutable_spec()->set_seed(7);
  EXPECT_NE(ConfigFrom(seeded, 0)->spec_hash, hash);
}

TEST(JobConfigTest, PathsMayNotLeaveTheirRoots) {
  v1alpha1::AttachResponse task = Task();
  task.mutable_assign()->mutable_spec()->mutable_data()->set_prefix("../secret");
  const absl::Status status = ConfigFrom(task, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("contains '..'"));
}

TEST(JobConfigTest, BatchThatDoesNotDivideIsRefused) {
  v1alpha1::AttachResponse task = Task();
  task.mutable_assign()->mutable_spec()->set_global_batch_size(7);
  EXPECT_EQ(std::string(ConfigFrom(task, 0).status().message()),
            "global_batch_size: found 7, expected a multiple of micro_batch_size 5");
}

}  // namespace
}  // namespace stretto::trainer
