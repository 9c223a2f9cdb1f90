// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job of the golden model, with exports and checkpoints from which it continues.

#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/initial_weights.h"
#include "worker/trainer/profile.h"
#include "worker/trainer/saved_state.h"

namespace stretto::trainer {

inline const std::string kModel = STRETTO_SOURCE_DIR "/tests/golden/models/gpt2_prefixed";

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
    std::filesystem::create_directories(folder_ / "export");
    std::filesystem::copy_file(kModel + "/config.json", folder_ / "export/config.json");
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
      if (*loaded) return std::filesystem::path((*saved)->name()).filename().string();
    }
  }
  void ExpectRefused(const std::string& message) {
    const absl::Status status = Try();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(message));
  }
};

}  // namespace stretto::trainer
