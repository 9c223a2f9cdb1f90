// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/inspect/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/spec/job/settings.h"
#include "tests/worker/test_files.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/tokenizer_info.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/settings_file.h"

namespace stretto::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

  void WriteData(int tokens, const std::string& tokenizer_hash = std::string(64, 'a'),
                 const std::string& name = "text") {
    auto writer = IndexedDatasetWriter::Create(folder_ / name, TokenType::kU16, true);
    std::vector<int32_t> values(static_cast<size_t>(tokens));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i % 100);
    ASSERT_TRUE(writer->AddDocument(values).ok());
    ASSERT_TRUE(writer->Finish().ok());
    if (tokenizer_hash.empty()) return;  // of another program
    ASSERT_TRUE(
        WriteTokenizerInfo(
            folder_ / name,
            {.kind = "bytes", .vocab_size = 100, .end_of_document = 1, .hash = tokenizer_hash})
            .ok());
  }
  // The job's data is a blend of "text" and of "more".
  void Blend() {
    spec().mutable_data()->clear_prefix();
    for (const char* part : {"text", "more"}) {
      v1alpha1::BlendPart& blended = *spec().mutable_data()->add_blend();
      blended.set_prefix(part);
      blended.set_weight(1);
    }
  }
  // A checkpoint of job "saved", whose settings are those of the job but for `changed`.
  void WriteCheckpoint(const std::string& tokenizer_hash, const spec::Settings& changed = {}) {
    const float values[] = {1, 2};
    const auto shard = WriteShard(folder_ / "saved", 4, {Epoch(1)}, Rank::Of(0),
                                  {{"w", "F32", {2}, {0}, {2}, values}});
    ASSERT_TRUE(shard.ok()) << shard.status();
    spec::Settings settings = spec::SettingsOf(ConfigFrom(task_, Rank::Of(0)).value().spec);
    for (const auto& [path, value] : changed) settings[path] = value;
    const TrainingState state{.step = 4,
                              .updates = 4,
                              .consumed_samples = 16,
                              .seed = 1,
                              .epoch = 1,
                              .spec_hash = "another",
                              .math_hash = "another",
                              .tokenizer_hash = tokenizer_hash,
                              .padded_vocab = 128,
                              .world_size = 2,
                              .tp_size = 2};
    const auto folder =
        Commit(folder_ / "saved", state, {*shard}, 0, {{kSettingsName, SettingsText(settings)}});
    ASSERT_TRUE(folder.ok()) << folder.status();
    spec().mutable_checkpoint()->set_resume_from("saved");
  }
  // Golden weights with a tokenizer's file beside them, of which the job's model is made.
  void WriteWeights() {
    std::filesystem::copy(STRETTO_SOURCE_DIR "/tests/golden/models/gpt2_prefixed",
                          folder_ / "weights");
    ASSERT_TRUE(WriteFileAtomic(folder_ / "weights/tokenizer.json", "{}").ok());
    v1alpha1::ModelSpec& model = *spec().mutable_model();
    model.Clear();
    model.set_layers(2);
    model.set_hidden(40);
    model.set_heads(4);
    model.set_vocab_size(131);
    model.set_sequence_length(16);
    model.set_initial_weights("hf:weights");
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
  EXPECT_EQ(found.facts(1), absl::StrCat("epoch: ", found.steps_of_epoch(), " steps"));
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

TEST_F(InspectTest, WeightsOfAnotherTokenizerAreAProblemUnlessAllowed) {
  WriteWeights();
  WriteData(10'000);
  EXPECT_THAT(Problems(),
              ElementsAre(AllOf(HasSubstr("data: " + (folder_ / "text") +
                                          ".tokenizer.json: found tokenizer bytes with hash aaaa"),
                                HasSubstr("expected that of the weights, " +
                                          (folder_ / "weights/tokenizer.json")))));
  spec().mutable_data()->set_allow_other_tokenizer(true);
  EXPECT_THAT(Problems(), IsEmpty());
  EXPECT_EQ(InspectJob(task_).facts(2), "initial weights: hf:" + (folder_ / "weights"));
}

TEST_F(InspectTest, ACheckpointIsFoundAndMayBeOfAShorterRun) {
  WriteData(10'000);
  WriteCheckpoint(std::string(64, 'a'), {{"optimizer.decay_steps", "4"}});
  EXPECT_THAT(Problems(), IsEmpty());
  EXPECT_EQ(InspectJob(task_).facts(2),
            "resumes from: " + (folder_ / "saved/step-00000004") + ", step 4");
}

TEST_F(InspectTest, ACheckpointOfOtherSettingsIsAProblem) {
  WriteData(10'000);
  WriteCheckpoint(std::string(64, 'a'), {{"optimizer.beta1", "0.25"}});
  EXPECT_THAT(Problems(),
              ElementsAre(AllOf(HasSubstr("checkpoint.resume_from: " +
                                          (folder_ / "saved/step-00000004") + ": optimizer.beta1"),
                                HasSubstr("found 0.25, expected 0.9"))));
}

TEST_F(InspectTest, ACheckpointOfAnotherTokenizerIsAProblemUnlessAllowed) {
  WriteData(10'000, std::string(64, 'b'));
  WriteCheckpoint(std::string(64, 'a'));
  const std::string found = (folder_ / "saved/step-00000004") + ": tokenizer_hash: found aaaa",
                    expected = "expected bbbb";
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr("checkpoint.resume_from: " + found),
                                            HasSubstr(expected))));
  spec().mutable_data()->set_allow_other_tokenizer(true);
  EXPECT_THAT(Problems(), IsEmpty());
  // It is named beside other settings, in one answer.
  spec().mutable_data()->set_allow_other_tokenizer(false);
  spec().mutable_optimizer()->set_beta1(0.5);
  EXPECT_THAT(Problems(),
              ElementsAre(HasSubstr("optimizer.beta1: found 0.9, expected 0.5"), HasSubstr(found)));
}

// Also where it is not the first part that has a tokenizer.
TEST_F(InspectTest, ABlendResumesWithThePartThatHasATokenizer) {
  WriteData(10'000, "");
  WriteData(10'000, std::string(64, 'b'), "more");
  Blend();
  WriteCheckpoint(std::string(64, 'b'));
  EXPECT_THAT(Problems(), IsEmpty());
  WriteData(10'000, std::string(64, 'c'), "more");
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr("checkpoint.resume_from: "),
                                            HasSubstr("tokenizer_hash: found bbbb"),
                                            HasSubstr("expected cccc"))));
  spec().mutable_data()->set_allow_other_tokenizer(true);
  EXPECT_THAT(Problems(), IsEmpty());
}

TEST_F(InspectTest, PartsOfABlendThatDisagreeAreAProblem) {
  WriteData(10'000);
  WriteData(10'000, std::string(64, 'b'), "more");
  Blend();
  EXPECT_THAT(Problems(), ElementsAre(AllOf(HasSubstr("data: " + (folder_ / "more.tokenizer.json")),
                                            HasSubstr("hash bbbb"), HasSubstr("expected aaaa"))));
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
