// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model as a checkpoint of a job.

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/sample/drawn_model.h"
#include "tests/worker/test_files.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/exchange/model_note.h"

namespace stretto {

// Writes it below `job_folder`, whose only rank it is of; `tokenizer` as in ModelNote. Returns the
// checkpoint's folder.
inline std::string WriteCheckpoint(const std::string& job_folder, const ModelSpec& model,
                                   const std::string& tokenizer) {
  const DrawnModel drawn(model);
  std::vector<std::vector<float>> values;
  std::vector<ShardTensor> tensors;
  for (size_t i = 0; i < drawn.parameters().size(); ++i) {
    const Parameter& p = drawn.parameters()[i];
    values.push_back(drawn.Values(i));
    tensors.push_back({p.name, "F32", p.shape, p.starts, p.extents, values.back().data()});
  }
  const auto shard = WriteShard(job_folder, 10, Epoch(1), Rank(0), tensors);
  EXPECT_TRUE(shard.ok()) << shard.status();
  TrainingState state;
  state.step = 10;
  state.epoch = 1;
  state.padded_vocab = model.padded_vocab();
  state.world_size = state.tp_size = 1;
  const auto folder = Commit(job_folder, state, {*shard}, 0);
  EXPECT_TRUE(folder.ok()) << folder.status();
  Spill(*folder + "/" + kModelNoteName,
        ModelNoteText({.model = model, .dtype = "F32", .tokenizer = tokenizer}));
  return *folder;
}

}  // namespace stretto
