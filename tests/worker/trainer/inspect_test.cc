// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/inspect/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/tokenizer_info.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class InspectTest : public testing::Test {
 protected:
  InspectTest() {
    task_.set_data_root(folder_.path());
    task_.set_checkpoint_root(folder_.path());
    task_.mutable_assign()->set_job_id("job");
    task_.mutable_assign()->set_attempt(1);
    v1alpha1::JobSpec& spec = *task_.mutable_assign()->mutable_spec();
    spec.mutable_model()->set_preset("gpt-tiny");
    spec.mutable_data()->set_prefix("text");
    spec.mutable_parallelism()->set_tp_size(2);
    spec.set_micro_batch_size(2);
    spec.set_global_batch_size(4);
    spec.set_steps(10);
  }
  v1alpha1::JobSpec& spec() { return *task_.mutable_assign()->mutable_spec(); }

  void WriteData(int tokens) {
    auto writer = IndexedDatasetWriter::Create(folder_ / "text", TokenType::kU16, true);
    std::vector<int32_t> values(static_cast<size_t>(tokens));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i % 100);
    ASSERT_TRUE(writer->AddDocument(values).ok());
    ASSERT_TRUE(writer->Finish().ok());
    ASSERT_TRUE(WriteTokenizerInfo(folder_ / "text", {.kind = "bytes",
                                                      .vocab_size = 100,
                                                      .end_of_document = 1,
                                                      .hash = std::string(64, 'a')})
                    .ok());
  }
  // "FIELD: MESSAGE" of each problem.
  std::vector<std::string> Problems() {
    std::vector<std::string> all;
    const v1alpha1::Inspection found = InspectJob(task_);
    for (const auto& problem : found.problems())
      all.push_back(problem.field() + ": " + problem.message());
    return all;
  }

  TestFolder folder_;
  v1alpha1::AttachResponse task_;
};

TEST_F(InspectTest, DataIsCounted) {
  WriteData(10'000);
  const v1alpha1::Inspection found = InspectJob(task_);
  EXPECT_TRUE(found.problems().empty()) << found.problems(0).message();
  EXPECT_EQ(found.not_done(), "");
  ASSERT_EQ(found.facts_size(), 2);
  EXPECT_THAT(found.facts(0), HasSubstr(" tokens to train on, tokenizer bytes of 100 tokens"));
  EXPECT_THAT(found.facts(1), HasSubstr("steps: 10 of "));
  EXPECT_THAT(found.facts(1),
              HasSubstr(absl::StrCat(" tokens each, an epoch has ", found.steps_of_epoch())));
  EXPECT_GT(found.steps_of_epoch(), 0);
}

// Every part that can be looked at is.
TEST_F(InspectTest, WhatIsMissingIsNamedByField) {
  spec().mutable_model()->set_initial_weights("hf:nowhere");
  EXPECT_THAT(Problems(),
              ElementsAre(HasSubstr("data: open " + (folder_ / "text")),
                          HasSubstr("model.initial_weights: open " + (folder_ / "nowhere"))));
  spec().mutable_model()->clear_initial_weights();
  spec().mutable_checkpoint()->set_resume_from("gone");
  WriteData(10'000);
  EXPECT_THAT(Problems(),
              ElementsAre(HasSubstr("checkpoint.resume_from: read folder " + (folder_ / "gone"))));
}

TEST_F(InspectTest, DataThatIsTooShortIsAProblem) {
  WriteData(3);
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("data: ")));
}

TEST_F(InspectTest, HeldOutDataIsLookedAt) {
  WriteData(10'000);
  spec().mutable_eval()->set_interval_steps(5);
  spec().mutable_eval()->set_prefix("valid");
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("eval: open " + (folder_ / "valid"))));
  spec().mutable_eval()->clear_prefix();
  spec().mutable_data()->set_held_out(0.4);
  EXPECT_TRUE(Problems().empty());
  EXPECT_THAT(InspectJob(task_).facts(0), HasSubstr(" held out, "));
}

TEST_F(InspectTest, APathThatLeavesItsRootIsAProblem) {
  spec().mutable_data()->set_prefix("../text");
  EXPECT_THAT(Problems(), ElementsAre(HasSubstr("spec: ")));
}

TEST_F(InspectTest, FilesAreReadAndWritten) {
  WriteData(10'000);
  const std::string task = folder_ / "task", answer = folder_ / "answer";
  ASSERT_TRUE(WriteFileAtomic(task, task_.SerializeAsString()).ok());
  ASSERT_TRUE(InspectJobOf(task, answer).ok());
  v1alpha1::Inspection found;
  ASSERT_TRUE(found.ParseFromString(*ReadFile(answer)));
  EXPECT_EQ(found.facts_size(), 2);
  EXPECT_FALSE(InspectJobOf(folder_ / "missing", answer).ok());
  ASSERT_TRUE(WriteFileAtomic(task, "no message").ok());
  const absl::Status status = InspectJobOf(task, answer);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found 10 bytes, expected an AttachResponse"));
}

}  // namespace
}  // namespace stretto::trainer
