// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/saved_state.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "proto/base/box.h"
#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/tiny_job.h"
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

const std::string kModel = STRETTO_SOURCE_DIR "/tests/golden/models/gpt2_prefixed";

using Tensors = std::map<std::string, std::vector<float>>;  // full ones

// Trains the golden model, by as many ranks as the config says.
class SavedStateTest : public TinyJobTest {
 protected:
  SavedStateTest() {
    config_.engine.model = {.layers = 2,
                            .hidden = 40,
                            .heads = 4,
                            .ffn_hidden = 160,
                            .sequence_length = 8,
                            .vocab_size = 131};
    config_.optimizer.learning_rate = config_.optimizer.min_learning_rate = 1e-3;
    config_.initial_weights = "hf:" + kModel;
    config_.spec_hash = "spec";
    config_.math_hash = "math";
    fs::create_directories(folder_ / "export");
    fs::copy_file(kModel + "/config.json", folder_ / "export/config.json");
    config_.resume_model = folder_ / "export";
  }

  // On every rank at once.
  void OnRanks(const std::function<void(RankEngine&, Communicator&, const JobConfig&)>& run) {
    OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
      run(engine, *rank.control, rank.config);
    });
  }

  // From `at` to `steps`.
  void Steps(RankEngine& engine, const JobConfig& config, TrainState at, int64_t steps) {
    for (; at.step < steps; ++at.step, ++at.updates) {
      ASSERT_TRUE(
          FillStep(config, *sampler_, at.consumed_samples, at.step + 1, at.updates, engine).ok());
      ASSERT_TRUE(engine.executor().Run().ok());
      at.consumed_samples += config.engine.sequences_per_step();
    }
  }

  void Gather(RankEngine& engine, Tensors* whole) {
    static std::mutex mu;
    const std::lock_guard lock(mu);
    for (const ShardTensor& tensor : engine.StateTensors()) {
      std::vector<float>& to = (*whole)[tensor.name];
      to.resize(static_cast<size_t>(*TensorBytes("F32", tensor.shape)) / 4);
      const float* values = static_cast<const float*>(*tensor.data.fetch());
      const Box all{std::vector<int64_t>(tensor.shape.size()), tensor.shape};
      const Box shard{tensor.starts, tensor.extents};
      ASSERT_TRUE(ForEachRun(shard, all, shard, [&](int64_t from, int64_t into, int64_t count) {
                    std::copy_n(values + from, count, to.begin() + into);
                    return absl::OkStatus();
                  }).ok());
    }
  }

  Tensors TrainStraight(int64_t steps) {
    const auto source = OpenInitialWeights(config_);
    EXPECT_TRUE(source.ok()) << source.status();
    Tensors whole;
    if (!source.ok()) return whole;
    OnRanks([&](RankEngine& engine, Communicator&, const JobConfig& config) {
      ASSERT_TRUE(ReadWeights(**source, engine).ok());
      Steps(engine, config, {}, steps);
      Gather(engine, &whole);
    });
    return whole;
  }

  TrainingState State(int64_t step) {
    return {.step = step,
            .updates = step,
            .consumed_samples = step * config_.engine.sequences_per_step(),
            .seed = config_.seed,
            .epoch = 1,
            .spec_hash = "spec",
            .math_hash = "math",
            .tokenizer_hash = "",
            .padded_vocab = 256,
            .world_size = config_.engine.world_size(),
            .tp_size = config_.engine.tp_size};
  }

  // The weights as the golden model has them. Where each element goes is found by reading a model
  // whose elements are their own numbers, from 1 (0 is what padding reads as).
  void ExportWeights(const Tensors& whole, const std::string& dtype = "F32") {
    const auto layout = SafetensorsReader::Open(kModel + "/model.safetensors");
    ASSERT_TRUE(layout.ok()) << layout.status();
    std::vector<float> file;
    std::vector<SourceTensor> tensors;
    for (const StoredTensor& stored : layout->header().tensors) {
      file.resize(file.size() + static_cast<size_t>(stored.bytes / 4));
    }
    std::iota(file.begin(), file.end(), 1.0f);
    size_t begin = 0;
    for (const StoredTensor& stored : layout->header().tensors) {
      tensors.push_back({stored.name, "F32", stored.shape, file.data() + begin});
      begin += static_cast<size_t>(stored.bytes / 4);
    }
    const std::string path = folder_ / "export/model.safetensors";
    ASSERT_TRUE(WriteSafetensors(path, tensors, {{"format", "pt"}}).ok());
    const auto probe = OpenModel("hf:" + (folder_ / "export"));
    ASSERT_TRUE(probe.ok()) << probe.status();
    std::vector<float> values(file.size());
    for (const Parameter& p : ParametersOf(config_.engine.model, 1, 0)) {
      std::vector<float> places(static_cast<size_t>(p.count()));
      ASSERT_TRUE((*probe)->Read(p.name, p.starts, p.extents, places.data()).ok());
      for (size_t i = 0; i < places.size(); ++i) {
        if (places[i] > 0) values[static_cast<size_t>(places[i]) - 1] = whole.at(p.name)[i];
      }
    }
    file = values;
    if (dtype != "F32") {
      for (SourceTensor& tensor : tensors) tensor.dtype = dtype;  // half of the bytes: any numbers
    }
    ASSERT_TRUE(WriteSafetensors(path, tensors, {{"format", "pt"}}).ok());
  }

  void ExportOptimizer(const Tensors& whole, const std::map<std::string, std::string>& metadata,
                       const std::string& without = "") {
    std::vector<SourceTensor> tensors;
    for (const Parameter& p : ParametersOf(config_.engine.model, 1, 0)) {
      for (const char* moment : {".m", ".v"}) {
        const std::string name = p.name + moment;
        if (name != without) tensors.push_back({name, "F32", p.shape, whole.at(name).data()});
      }
    }
    ASSERT_TRUE(
        WriteSafetensors(folder_ / "export/stretto-optimizer.safetensors", tensors, metadata).ok());
  }

  void Export(const Tensors& whole, const TrainingState& state) {
    ExportWeights(whole);
    ExportOptimizer(whole, {{kTrainingStateKey, TrainingStateText(state)}});
  }

  // What opening and loading say, on one rank.
  absl::Status Try(const std::string& tokenizer_hash = "") {
    const auto group = LocalGroup::Create(1);
    const auto saved = FindSavedState(config_, *group[0]);
    if (!saved.ok()) return saved.status();
    return Resume(config_, tokenizer_hash, **saved, *MakeEngine()).status();
  }
  // Finds, loads and verifies, until a state is whole. Returns its name, or why there is none.
  static std::string Take(RankEngine& engine, Communicator& group, const JobConfig& config) {
    DamagedStates damaged;
    while (true) {
      const auto saved = FindSavedState(config, group, {}, damaged);
      if (!saved.ok()) return std::string(saved.status().message());
      const absl::Status mine = Resume(config, "", **saved, engine).status();
      const auto loaded = AllLoaded(saved->get(), mine, group, &damaged);
      if (!loaded.ok()) return std::string(loaded.status().message());
      if (*loaded) return fs::path((*saved)->name()).filename().string();
    }
  }
  void ExpectRefused(const std::string& message) {
    const absl::Status status = Try();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
};

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
