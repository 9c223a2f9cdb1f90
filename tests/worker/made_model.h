// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models that nobody trained: as a source of weights that is in no file, and as a checkpoint of a
// job.

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/base/random.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_note.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Element i of parameter `index` of the whole model.
using MadeElement = float (*)(const Parameter& parameter, size_t index, int64_t i);

// A multiple of 2^-7 within [-1, 1), which every type holds exactly.
inline float ShortElement(const Parameter& parameter, size_t, int64_t i) {
  const uint64_t seed = std::hash<std::string>()(parameter.name) + static_cast<uint64_t>(i);
  return static_cast<float>((seed * 0x9e3779b97f4a7c15u) >> 56) / 128.0f - 1.0f;
}
// Large enough that every weight moves the logits.
inline float DrawnElement(const Parameter& parameter, size_t index, int64_t i) {
  const float draw = 2 * ToUniform(Philox(5, static_cast<uint64_t>(i), index)[0]) - 1;
  return (parameter.init == Init::kOne ? 1 : 0) + 0.4f * draw;
}

class MadeSource final : public ModelSource {
 public:
  explicit MadeSource(ModelSpec model, MadeElement element = ShortElement)
      : model_(std::move(model)), element_(element), parameters_(ParametersOf(model_, 1, 0)) {}

  const std::string& name() const override { return name_; }
  const ModelSpec& model() const override { return model_; }
  const std::string& dtype() const override { return made_dtype; }
  const std::string& dtype_of(absl::string_view parameter) const override {
    const auto found = made_dtypes.find(std::string(parameter));
    return found == made_dtypes.end() ? made_dtype : found->second;
  }
  std::vector<std::string> tokenizer_files() const override { return made_tokenizer; }

  absl::Status Read(absl::string_view parameter, const std::vector<int64_t>& starts,
                    const std::vector<int64_t>& extents, float* out) const override {
    size_t index = 0;
    while (parameters_.at(index).name != parameter) ++index;
    const Parameter& whole = parameters_[index];
    std::vector<int64_t> shape = whole.shape, first = starts, count = extents;
    while (shape.size() < 3) {
      shape.insert(shape.begin(), 1);
      first.insert(first.begin(), 0);
      count.insert(count.begin(), 1);
    }
    const int64_t padding =
        whole.padding_from < 0 ? INT64_MAX : whole.padding_from * whole.shape.back();
    for (int64_t a = first[0]; a < first[0] + count[0]; ++a) {
      for (int64_t b = first[1]; b < first[1] + count[1]; ++b) {
        for (int64_t c = first[2]; c < first[2] + count[2]; ++c) {
          const int64_t i = (a * shape[1] + b) * shape[2] + c;
          *out++ = i >= padding ? 0 : element_(whole, index, i);
        }
      }
    }
    if (parameter == made_huge) out[-1] = huge;
    return absl::OkStatus();
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<float> Values(const Parameter& part) const {  // of a rank's part, or all
    std::vector<float> values(static_cast<size_t>(part.count()));
    EXPECT_TRUE(Read(part.name, part.starts, part.extents, values.data()).ok());
    return values;
  }

  std::string made_dtype = "F32";
  std::map<std::string, std::string> made_dtypes;  // of parameters that have another
  std::vector<std::string> made_tokenizer;
  std::string made_huge;  // a parameter whose last element is `huge`
  float huge = 0;

 private:
  const std::string name_ = "made";
  const ModelSpec model_;
  const MadeElement element_;
  const std::vector<Parameter> parameters_;
};

inline MadeSource DrawnModel(const ModelSpec& model) { return MadeSource(model, DrawnElement); }

inline ModelSpec SmallGpt() {
  return {.architecture = ArchitectureOf(Family::kGpt),
          .layers = 2,
          .hidden = 24,
          .heads = 3,
          .ffn_hidden = 96,
          .sequence_length = 16,
          .vocab_size = 200};
}

// Grouped queries.
inline ModelSpec SmallLlama() {
  return {.architecture = ArchitectureOf(Family::kLlama),
          .layers = 2,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 2,
          .ffn_hidden = 48,
          .sequence_length = 16,
          .vocab_size = 200};
}

// For longer texts of fewer tokens.
inline ModelSpec TinyGpt() {
  ModelSpec model = SmallGpt();
  model.ffn_hidden = 40;
  model.sequence_length = 300;
  model.vocab_size = 90;
  return model;
}
inline ModelSpec TinyLlama() {
  ModelSpec model = SmallLlama();
  model.sequence_length = 300;
  model.vocab_size = 90;
  return model;
}

// Every option that a model has, away from its default.
inline ModelSpec OddGpt() {
  ModelSpec model = TinyGpt();
  model.norm_epsilon = 1e-2;
  model.tied_head = false;
  return model;
}
inline ModelSpec OddLlama() {
  ModelSpec model = TinyLlama();
  model.norm_epsilon = 1e-2;
  model.tied_head = true;
  model.rotary_base = 500;
  model.rotary_scaling = {.kind = RotaryScaling::Kind::kLlama3,
                          .factor = 4,
                          .low_frequency_factor = 1,
                          .high_frequency_factor = 4,
                          .original_sequence_length = 64};
  return model;
}

inline std::vector<int32_t> DrawnTokens(int64_t count, const ModelSpec& model, uint64_t seed = 3) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] =
        static_cast<int32_t>(Philox(seed, i, 0)[0] % static_cast<uint32_t>(model.vocab_size));
  }
  return tokens;
}

struct MadeCheckpoint {
  int64_t step = 10;
  int ranks = 2;
  std::string tokenizer = "";  // as in ModelNote
  std::optional<double> held_out_loss = {};
};

// Writes what `ranks` ranks have of the model, its moments too (weights plus 1 and plus 2), with
// its note. Returns the checkpoint's folder.
inline std::string WriteMadeCheckpoint(const std::string& job, const MadeSource& source,
                                       const MadeCheckpoint& made = {}) {
  const ModelSpec& model = source.model();
  std::vector<ShardInfo> shards;
  for (int rank = 0; rank < made.ranks; ++rank) {
    std::vector<std::vector<float>> values;
    std::vector<ShardTensor> tensors;
    for (const Parameter& p : ParametersOf(model, made.ranks, GroupRank::Of(rank))) {
      if (rank > 0 && !p.sharded()) continue;  // the first rank writes it
      for (const char* suffix : {"", ".m", ".v"}) {
        values.push_back(suffix[0] == 0 ? source.Values(p) : values.back());
        if (suffix[0] != 0) {
          for (float& value : values.back()) value += 1;
        }
        tensors.push_back({p.name + suffix, "F32", p.shape, p.starts, p.extents, {}});
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].data = TensorData(values[i].data());
    const auto shard = WriteShard(job, made.step, {Epoch(1)}, Rank::Of(rank), tensors);
    EXPECT_TRUE(shard.ok()) << shard.status();
    shards.push_back(*shard);
  }
  TrainingState state{.step = made.step,
                      .updates = made.step,
                      .consumed_samples = 8 * made.step,
                      .seed = 7,
                      .epoch = 1,
                      .spec_hash = "spec",
                      .math_hash = "math",
                      .tokenizer_hash = "",
                      .padded_vocab = model.padded_vocab(),
                      .world_size = made.ranks,
                      .tp_size = made.ranks,
                      .held_out = {}};
  if (made.held_out_loss) state.held_out = {.of = "text", .loss = made.held_out_loss};
  const auto folder = Commit(job, state, shards, 0,
                             {{kModelNoteName, ModelNoteText({model, "F32", made.tokenizer})}});
  EXPECT_TRUE(folder.ok()) << folder.status();
  return folder.ok() ? *folder : "";
}

}  // namespace stretto
