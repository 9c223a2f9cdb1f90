// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models of any size that lie nowhere, and checkpoints of them.

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_note.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Element i of a whole tensor: a multiple of 2^-7 within [-1, 1), which every type holds exactly.
inline float MadeValue(const std::string& tensor, int64_t i) {
  const uint64_t seed = std::hash<std::string>()(tensor) + static_cast<uint64_t>(i);
  return static_cast<float>((seed * 0x9e3779b97f4a7c15u) >> 56) / 128.0f - 1.0f;
}

class MadeSource final : public ModelSource {
 public:
  explicit MadeSource(const ModelSpec& model) : model_(model) {
    for (const Parameter& parameter : ParametersOf(model, 1, 0)) {
      parameters_[parameter.name] = parameter;
    }
  }

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
    const Parameter& whole = parameters_.at(std::string(parameter));
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
          *out++ = i >= padding ? 0 : MadeValue(whole.name, i);
        }
      }
    }
    if (parameter == made_huge) out[-1] = huge;
    return absl::OkStatus();
  }

  std::string made_dtype = "F32";
  std::map<std::string, std::string> made_dtypes;  // of parameters that have another
  std::vector<std::string> made_tokenizer;
  std::string made_huge;  // a parameter whose last element is `huge`
  float huge = 0;

 private:
  const std::string name_ = "made";
  const ModelSpec model_;
  std::map<std::string, Parameter> parameters_;
};

inline ModelSpec SmallGpt() {
  return {.architecture = ArchitectureOf(Family::kGpt),
          .layers = 2,
          .hidden = 24,
          .heads = 3,
          .ffn_hidden = 96,
          .sequence_length = 16,
          .vocab_size = 200};
}

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

// What one rank of two writes of it at that step, weights and moments, with its note.
inline std::string WriteMadeCheckpoint(const std::string& job, const ModelSpec& model, int64_t step,
                                       const std::vector<Attachment>& attachments = {}) {
  std::vector<ShardInfo> shards;
  const MadeSource source(model);
  for (const int rank : {0, 1}) {
    std::vector<std::vector<float>> values;
    std::vector<ShardTensor> tensors;
    for (const Parameter& p : ParametersOf(model, 2, rank)) {
      for (const char* suffix : {"", ".m", ".v"}) {
        values.emplace_back(static_cast<size_t>(p.count()));
        EXPECT_TRUE(source.Read(p.name, p.starts, p.extents, values.back().data()).ok());
        for (float& value : values.back()) value += suffix[0] == 0 ? 0 : suffix[1] == 'm' ? 1 : 2;
        tensors.push_back({p.name + suffix, "F32", p.shape, p.starts, p.extents, {}});
      }
    }
    for (size_t i = 0; i < tensors.size(); ++i) tensors[i].data = TensorData(values[i].data());
    const auto shard = WriteShard(job, step, Epoch(1), Rank(rank), tensors);
    EXPECT_TRUE(shard.ok()) << shard.status();
    shards.push_back(*shard);
  }
  std::vector<Attachment> all = attachments;
  all.push_back(
      {kModelNoteName, ModelNoteText({model, "F32", attachments.empty() ? "" : "files"})});
  const TrainingState state{.step = step,
                            .updates = step,
                            .consumed_samples = 8 * step,
                            .seed = 7,
                            .epoch = 1,
                            .spec_hash = "spec",
                            .tokenizer_hash = "",
                            .padded_vocab = model.padded_vocab(),
                            .world_size = 2,
                            .tp_size = 2};
  const auto folder = Commit(job, state, shards, 0, all);
  EXPECT_TRUE(folder.ok()) << folder.status();
  return folder.ok() ? *folder : "";
}

}  // namespace stretto
