// SPDX-License-Identifier: Apache-2.0

// Which state an attempt continues, and what the state knows of its origin.

#include "tests/worker/trainer/saved_state_job.h"
#include "worker/checkpoint/fence.h"
#include "worker/checkpoint/project.h"
#include "worker/exchange/model_note.h"

namespace stretto::trainer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

// An attempt continues its own run, whatever the job began with.
TEST_F(SavedStateTest, ALaterAttemptContinuesItsRunAndTheFirstWhatTheSpecNames) {
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  const auto save = [&](const std::string& job, const std::string& run, int64_t step) {
    const Attempt attempt{Epoch(2), run};
    const auto shard =
        WriteShard(folder_ / job, step, attempt, Rank::Of(0), engine->StateTensors());
    ASSERT_TRUE(shard.ok()) << shard.status();
    TrainingState state = State(step);
    state.job_uid = run;
    state.epoch = 2;
    ASSERT_TRUE(Commit(folder_ / job, state, {*shard}, 0).ok());
  };
  const auto found = [&]() -> std::string {
    const auto group = LocalGroup::Create(1);
    const auto saved = FindSavedState(config_, *group[0]);
    if (!saved.ok()) return std::string(saved.status().message());
    return *saved == nullptr ? "" : (*saved)->name();
  };
  config_.resume_model.clear();
  config_.checkpoint_folder = folder_ / "mine";
  config_.job_uid = "mine1234";
  config_.epoch = 2;
  config_.attempt = 2;
  EXPECT_EQ(found(), "");
  // From now on, an earlier attempt that still trains somewhere saves nothing.
  EXPECT_TRUE(absl::IsAborted(CheckFence(folder_ / "mine", {Epoch(1), "mine1234"})));
  EXPECT_EQ(CheckFence(folder_ / "mine", {Epoch(2), "mine1234"}), absl::OkStatus());
  save("mine", "gone5678", 90);  // another run of that name
  EXPECT_EQ(found(), "");
  save("base", "base0000", 50);
  config_.resume_folder = folder_ / "base";
  EXPECT_EQ(found(), folder_ / "base/step-00000050");
  save("mine", "mine1234", 10);
  EXPECT_EQ(found(), folder_ / "mine/step-00000010");
  config_.attempt = 1;  // the first one continues what the spec names
  EXPECT_EQ(found(), folder_ / "base/step-00000050");
  config_.attempt = 2;
  config_.checkpoint_disabled = true;
  EXPECT_EQ(found(), folder_ / "base/step-00000050");
}

// What the coordinator has allowed is a project, so that a name which is used again gives nothing
// away.
TEST_F(SavedStateTest, AJobResumesFromItsOwnProjectOrFromTheOneThatItNames) {
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  const auto save = [&](const std::string& job, int64_t step, const std::string& project) {
    const auto shard =
        WriteShard(folder_ / job, step, {Epoch(1)}, Rank::Of(0), engine->StateTensors());
    ASSERT_TRUE(shard.ok()) << shard.status();
    TrainingState state = State(step);
    state.held_out = {.of = "text", .loss = 1.0};
    std::vector<Attachment> attachments;
    if (!project.empty()) attachments.push_back({kProjectName, ProjectText(project)});
    ASSERT_TRUE(Commit(folder_ / job, state, {*shard}, 0, attachments).ok());
  };
  save("gpt", 4, "speech");
  save("old", 4, "");
  const auto take = [&](const std::string& resume_from) {
    JobConfig config = config_;
    config.resume_model.clear();
    config.spec.mutable_queue()->set_project("text");
    config.spec.mutable_checkpoint()->set_resume_from(resume_from);
    const std::string path = resume_from.substr(0, resume_from.find('@'));
    config.resume_folder = folder_ / path;
    config.resume_exact = path.find('/') != std::string::npos;
    const auto group = LocalGroup::Create(1);
    return Take(*engine, *group[0], config);
  };
  EXPECT_THAT(take("gpt"), HasSubstr("checkpoint.resume_from: checkpoints in " + (folder_ / "gpt") +
                                     ": found only some of project speech, expected one of "
                                     "project text"));
  EXPECT_THAT(take("gpt/best"), HasSubstr("found only some of project speech"));
  EXPECT_EQ(take("gpt/step-00000004"),
            (folder_ / "gpt/step-00000004") +
                ": found a checkpoint of project speech, expected one of project text");
  for (const char* from : {"gpt@speech", "gpt/best@speech", "gpt/step-00000004@speech"}) {
    EXPECT_EQ(take(from), "step-00000004") << from;
  }
  EXPECT_THAT(take("gpt@vision"), HasSubstr("expected one of project vision"));
  // Earlier releases wrote none.
  for (const char* from : {"old", "old/best", "old@speech"}) {
    EXPECT_EQ(take(from), "step-00000004") << from;
  }
}

TEST_F(SavedStateTest, CheckpointsHaveTheProjectOfTheirJob) {
  config_.spec.mutable_queue()->set_project("speech");
  const auto attachments = AttachmentsOf(config_, "", nullptr, nullptr);
  ASSERT_TRUE(attachments.ok()) << attachments.status();
  EXPECT_THAT(*attachments,
              testing::Contains(AllOf(Field(&Attachment::name, "project.json"),
                                      Field(&Attachment::content, ProjectText("speech")))));
}

TEST_F(SavedStateTest, WhatItResumedFromIsTheParent) {
  const Tensors whole = TrainStraight(1);
  TrainingState state = State(1);
  state.job_uid = "0123abcd";
  Export(whole, state);
  const auto group = LocalGroup::Create(1);
  const auto saved = FindSavedState(config_, *group[0]);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto at = Resume(config_, "", **saved, *MakeEngine());
  ASSERT_TRUE(at.ok()) << at.status();
  EXPECT_EQ(at->parent, (ParentState{.job_uid = "0123abcd", .epoch = 1, .step = 1}));
}

TEST_F(SavedStateTest, WhoLoadsShowsThatItIsAlive) {
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  const auto shard =
      WriteShard(folder_ / "job", 4, {Epoch(1)}, Rank::Of(0), engine->StateTensors());
  ASSERT_TRUE(shard.ok()) << shard.status();
  ASSERT_TRUE(Commit(folder_ / "job", State(4), {*shard}, 0).ok());
  config_.resume_model.clear();
  config_.resume_folder = folder_ / "job";
  const auto group = LocalGroup::Create(1);
  int alive = 0;
  const auto saved = FindSavedState(config_, *group[0], [&] { ++alive; });
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_TRUE(Resume(config_, "", **saved, *engine).ok());
  EXPECT_GT(alive, 0);
}

// A checkpoint passes on what it was given.
TEST_F(SavedStateTest, ACheckpointKnowsWhereItsWeightsCameFrom) {
  const ModelNote note{.model = config_.engine.model, .dtype = "BF16", .tokenizer = "files"};
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  const std::string job = folder_ / "job";
  const auto save = [&](const std::vector<Attachment>& attachments) {
    const auto shard = WriteShard(job, 4, {Epoch(1)}, Rank::Of(0), engine->StateTensors());
    ASSERT_TRUE(shard.ok()) << shard.status();
    ASSERT_TRUE(Commit(job, State(4), {*shard}, 0, attachments).ok());
  };
  save({{kModelNoteName, ModelNoteText(note)},
        {"merges.txt", "a b"},
        {kProjectName, ProjectText("speech")}});
  config_.resume_model.clear();
  config_.resume_folder = job;
  const auto group = LocalGroup::Create(1);
  auto saved = FindSavedState(config_, *group[0]);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ((*saved)->state(), State(4));
  const auto origin = (*saved)->origin();
  ASSERT_TRUE(origin.ok()) << origin.status();
  EXPECT_EQ(origin->dtype, "BF16");
  EXPECT_EQ(origin->tokenizer, "files");
  EXPECT_THAT(origin->tokenizer_files, ElementsAre(job + "/step-00000004/merges.txt"));
  save({});  // as before there were notes
  saved = FindSavedState(config_, *group[0]);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ((*saved)->origin()->dtype, "F32");
  EXPECT_EQ((*saved)->origin()->tokenizer, "");
  save({{kModelNoteName, "{}"}});
  saved = FindSavedState(config_, *group[0]);
  EXPECT_THAT(std::string((*saved)->origin().status().message()), HasSubstr("model.json: "));
}

TEST_F(SavedStateTest, NothingToGoOnFromIsAFreshStart) {
  config_.resume_model.clear();
  const auto group = LocalGroup::Create(1);
  const auto saved = FindSavedState(config_, *group[0]);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(*saved, nullptr);
}

}  // namespace
}  // namespace stretto::trainer
