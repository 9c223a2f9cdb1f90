// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checkpoints of two ranks, with small tensors.

#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/test_files.h"
#include "worker/checkpoint/checkpoint.h"

namespace stretto {

namespace fs = std::filesystem;

inline constexpr int64_t kRows = 4, kColumns = 6;
inline constexpr char kRun[] = "0123abcdef";

// The value of element i of the [4, 6] tensors below, at a step.
inline float Value(int64_t step, int64_t i) { return static_cast<float>(step * 1000 + i); }

// Two ranks: "rows" is cut by rows, "columns" by columns, "bias" is that of the first.
class CheckpointTest : public testing::Test {
 protected:
  TrainingState State(int64_t step, int64_t epoch) {
    return {.step = step,
            .updates = step,
            .consumed_samples = step * 8,
            .seed = 5,
            .epoch = epoch,
            .spec_hash = "spec",
            .math_hash = "math",
            .tokenizer_hash = "tok",
            .padded_vocab = 128,
            .world_size = 2,
            .tp_size = 2,
            .job_uid = kRun};
  }

  absl::StatusOr<ShardInfo> WriteRank(int64_t step, int64_t epoch, int64_t rank) {
    std::vector<float> rows, columns;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      if (i / kColumns / 2 == rank) rows.push_back(Value(step, i));
      if (i % kColumns / 3 == rank) columns.push_back(Value(step, i));
    }
    const uint16_t bias[] = {1, 2};
    std::vector<ShardTensor> tensors = {
        {"rows", "F32", {kRows, kColumns}, {2 * rank, 0}, {2, kColumns}, rows.data()},
        {"columns", "F32", {kRows, kColumns}, {0, 3 * rank}, {kRows, 3}, columns.data()}};
    if (rank == 0) tensors.push_back({"bias", "BF16", {2}, {0}, {2}, bias});
    return WriteShard(job_, step, {Epoch(epoch), kRun}, Rank::Of(rank), tensors);
  }

  std::vector<ShardInfo> WriteBoth(int64_t step, int64_t epoch) {
    std::vector<ShardInfo> shards;
    for (int64_t rank : {0, 1}) {
      auto info = WriteRank(step, epoch, rank);
      EXPECT_TRUE(info.ok()) << info.status();
      shards.push_back(*ParseShardInfo(ShardInfoText(*info)));
    }
    return shards;
  }

  std::string Save(int64_t step, int64_t epoch, int keep = 0) {
    const auto folder = Commit(job_, State(step, epoch), WriteBoth(step, epoch), keep,
                               {{"note.json", "{\"a\": 1}"}});
    EXPECT_TRUE(folder.ok()) << folder.status();
    return folder.ok() ? *folder : "";
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(job_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  void FlipByte(const std::string& path) {
    std::string bytes = Slurp(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    Spill(path, bytes);
  }

  TestFolder folder_;
  std::string job_ = folder_ / "gpt";
};

}  // namespace stretto
