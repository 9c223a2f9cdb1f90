// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/saved_state.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "proto/base/box.h"
#include "tests/worker/trainer/saved_state_job.h"
#include "worker/checkpoint/fence.h"
#include "worker/exchange/model_note.h"
#include "worker/trainer/initial_weights.h"
#include "worker/trainer/profile.h"
#include "worker/trainer/settings_file.h"

namespace stretto::trainer {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(SavedStateTest, GoingOnFromAnExportIsTrainingOn) {
  struct Size {
    int tp, dp, micro_batches;
  };
  for (const Size& size : {Size{1, 1, 3}, {2, 1, 3}, {2, 3, 1}}) {
    config_.engine.tp_size = size.tp;
    config_.engine.dp_size = size.dp;
    config_.engine.micro_batches = size.micro_batches;
    const Tensors straight = TrainStraight(6);
    Export(TrainStraight(3), State(3));
    Tensors resumed;
    OnRanks([&](RankEngine& engine, Communicator& group, const JobConfig& config) {
      const auto saved = FindSavedState(config, group);
      ASSERT_TRUE(saved.ok()) << saved.status();
      const auto at = Resume(config, "", **saved, engine);
      ASSERT_TRUE(at.ok()) << at.status();
      EXPECT_EQ(at->step, 3);
      EXPECT_EQ(at->consumed_samples, 18);
      Steps(engine, config, *at, 6);
      Gather(engine, &resumed);
    });
    ASSERT_EQ(resumed.size(), straight.size());
    for (const auto& [name, values] : straight) {
      EXPECT_EQ(std::memcmp(values.data(), resumed[name].data(), values.size() * 4), 0) << name;
      EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](float v) { return v != 0; }))
          << name;
    }
  }
}

TEST_F(SavedStateTest, LaterAttemptNeedsTheCheckpointThatAnEarlierOneSaved) {
  const auto group = LocalGroup::Create(1);
  config_.resume_model.clear();
  config_.attempt = 2;
  config_.checkpoint_folder = folder_ / "checkpoints";
  // None was saved: the first state.
  const auto fresh = FindSavedState(config_, *group[0]);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(*fresh, nullptr);
  config_.saved_step = 7;
  const absl::Status missing = FindSavedState(config_, *group[0]).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("found no checkpoint of this job, expected that of step 7"));
}

TEST_F(SavedStateTest, AnExportIsOfALayoutAndASpec) {
  const Tensors whole = TrainStraight(1);
  TrainingState state = State(1);
  state.spec_hash = "another";  // layout
  Export(whole, state);
  EXPECT_TRUE(Try().ok()) << Try();
  state.math_hash = "another";
  Export(whole, state);
  ExpectRefused("export: math_hash: found another, expected math");
  // Of a release without that hash.
  state.math_hash = "";
  Export(whole, state);
  ExpectRefused("export: spec_hash: found another, expected spec");
  state.tp_size = 2;
  Export(whole, state);
  ExpectRefused("export: tp_size: found 2, expected 1");
  Export(whole, State(1));
  EXPECT_TRUE(Try().ok()) << Try();
  config_.engine.model.layers = 3;
  ExpectRefused("checkpoint.resume_from: " + (folder_ / "export") +
                "/config.json: model.layers: found 2, expected 3");
}

// It is refused before tensors are read.
TEST_F(SavedStateTest, ARefusalNamesTheSettingsThatDiffer) {
  config_.spec.set_seed(7);
  spec::Settings settings = spec::SettingsOf(config_.spec);
  settings["seed"] = "9";
  settings["optimizer.beta1"] = "0.25";
  const Tensors whole = TrainStraight(1);
  TrainingState state = State(1);
  state.spec_hash = state.math_hash = "another";
  ExportWeights(whole);
  ExportOptimizer(whole, {{kTrainingStateKey, TrainingStateText(state)},
                          {kSettingsKey, SettingsText(settings)}});
  ExpectRefused("seed: found 9, expected 7");
  ExpectRefused("export: optimizer.beta1: found 0.25, expected ");
  // Whether anything differs is up to the hash.
  ExportOptimizer(whole, {{kTrainingStateKey, TrainingStateText(State(1))},
                          {kSettingsKey, SettingsText(settings)}});
  EXPECT_TRUE(Try().ok()) << Try();
  ExportOptimizer(whole, {{kTrainingStateKey, TrainingStateText(State(1))}, {kSettingsKey, "{"}});
  ExpectRefused("export/stretto-optimizer.safetensors: __metadata__ stretto.settings");
}

TEST_F(SavedStateTest, DataOfAnotherTokenizerIsRefusedUnlessAllowed) {
  const Tensors whole = TrainStraight(1);
  TrainingState state = State(1);
  state.tokenizer_hash = "learned";
  Export(whole, state);
  EXPECT_TRUE(Try("learned").ok());
  EXPECT_TRUE(Try("").ok());  // not known
  EXPECT_EQ(Try("bytes").message(),
            (folder_ / "export") +
                ": tokenizer_hash: found learned, expected bytes, that of the data: use data of "
                "the same tokenizer, or set data.allow_other_tokenizer");
  config_.allow_other_tokenizer = true;
  EXPECT_TRUE(Try("bytes").ok());
}

TEST_F(SavedStateTest, AnExportWithoutItsOptimizerIsRefused) {
  const Tensors whole = TrainStraight(1);
  const std::map<std::string, std::string> metadata = {
      {kTrainingStateKey, TrainingStateText(State(1))}};
  const std::string path = folder_ / "export/stretto-optimizer.safetensors";
  ExpectRefused("checkpoint.resume_from: ");  // no weights
  ExportWeights(whole);
  ExpectRefused("checkpoint.resume_from: open " + path);
  ExportOptimizer(whole, {});
  ExpectRefused(path + ": __metadata__ stretto.training_state: found none");
  ExportOptimizer(whole, {{kTrainingStateKey, "{\"step\": -1}"}});
  ExpectRefused(path + ": __metadata__ stretto.training_state: step: found -1");
  ExportOptimizer(whole, metadata, "layers.1.mlp.fc1.weight.v");
  ExpectRefused(path + ": tensor layers.1.mlp.fc1.weight.v: found none, expected F32 [");
  ExportOptimizer(whole, metadata);
  fs::resize_file(path, fs::file_size(path) - 4);
  ExpectRefused("checkpoint.resume_from: " + path + ": ");
}

TEST_F(SavedStateTest, RoundedWeightsAreNoneToGoOnFrom) {
  const Tensors whole = TrainStraight(1);
  ExportWeights(whole, "BF16");
  ExportOptimizer(whole, {{kTrainingStateKey, TrainingStateText(State(1))}});
  ExpectRefused("export: weights: found BF16, expected F32");
}

// Each rank verifies the files of some ranks while it loads. Damage that only the other one finds
// counts for all.
TEST_F(SavedStateTest, RanksCheckACheckpointTogether) {
  config_.engine.tp_size = 2;
  config_.resume_model.clear();
  config_.resume_folder = folder_ / "job";
  std::mutex mu;
  for (int64_t step : {4, 8}) {
    std::vector<ShardInfo> shards;
    OnRanks([&](RankEngine& engine, Communicator&, const JobConfig& config) {
      ASSERT_TRUE(engine.Initialise(1).ok());
      const auto shard = WriteShard(config.resume_folder, step, {Epoch(1)}, config.rank,
                                    engine.OwnedStateTensors());
      ASSERT_TRUE(shard.ok()) << shard.status();
      const std::lock_guard lock(mu);
      shards.push_back(*shard);
    });
    ASSERT_TRUE(Commit(config_.resume_folder, State(step), shards, 0).ok());
  }
  const auto found = [&] {
    std::set<std::string> names;
    OnRanks([&](RankEngine& engine, Communicator& group, const JobConfig& config) {
      const std::string name = Take(engine, group, config);
      const std::lock_guard lock(mu);
      names.insert(name);
    });
    return names;
  };
  EXPECT_THAT(found(), ElementsAre("step-00000008"));

  const std::string newest = config_.resume_folder + "/step-00000008";
  const std::string damaged = newest + "/rank-00001.safetensors";
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  config_.resume_folder = newest;
  config_.resume_exact = true;
  EXPECT_THAT(found(), ElementsAre(HasSubstr(damaged + ": crc32c: found ")));

  config_.resume_folder = folder_ / "job";
  config_.resume_exact = false;
  EXPECT_THAT(found(), ElementsAre("step-00000004"));
  EXPECT_TRUE(fs::exists(damaged));  // another job's, which may be running

  // A new attempt of the job itself.
  config_.resume_folder.clear();
  config_.checkpoint_folder = folder_ / "job";
  config_.job_uid = "0123abcd";
  config_.epoch = 2;
  config_.attempt = 2;
  config_.saved_step = 8;
  EXPECT_THAT(found(), ElementsAre("step-00000004"));
  EXPECT_TRUE(fs::exists(newest + ".bad-1"));
}

// It is named, so it is never passed over, also when its damage is found late.
TEST_F(SavedStateTest, TheBestOfAJobIsTakenOrRefused) {
  const auto engine = MakeEngine();
  ASSERT_TRUE(engine->Initialise(1).ok());
  for (const auto& [step, loss] : {std::pair(4, 1.0), {8, 2.0}}) {
    const auto shard =
        WriteShard(folder_ / "job", step, {Epoch(1)}, Rank::Of(0), engine->StateTensors());
    ASSERT_TRUE(shard.ok()) << shard.status();
    TrainingState state = State(step);
    state.held_out = {.of = "text", .loss = loss};
    ASSERT_TRUE(Commit(folder_ / "job", state, {*shard}, 0).ok());
  }
  config_.resume_model.clear();
  config_.resume_folder = folder_ / "job/best";
  config_.resume_exact = true;
  const auto group = LocalGroup::Create(1);
  EXPECT_EQ(Take(*engine, *group[0], config_), "step-00000004");
  const std::string file = folder_ / "job/step-00000004/rank-00000.safetensors";
  {
    std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-1, std::ios::end);
    damaged.put('\x55');
  }
  EXPECT_THAT(Take(*engine, *group[0], config_), HasSubstr(file + ": crc32c: found "));
  config_.resume_folder = folder_ / "nobody/best";
  EXPECT_THAT(Take(*engine, *group[0], config_), HasSubstr("checkpoint.resume_from: "));
}

}  // namespace
}  // namespace stretto::trainer
