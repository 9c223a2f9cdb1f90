// SPDX-License-Identifier: Apache-2.0

// Which state an attempt continues, and what the state knows of its origin.

#include "tests/worker/trainer/saved_state_job.h"
#include "worker/checkpoint/fence.h"
#include "worker/exchange/model_note.h"

namespace stretto::trainer {
namespace {

using testing::ElementsAre;
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
  save({{kModelNoteName, ModelNoteText(note)}, {"merges.txt", "a b"}});
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
