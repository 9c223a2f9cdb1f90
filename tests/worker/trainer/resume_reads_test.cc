// SPDX-License-Identifier: Apache-2.0

// How many bytes a resume reads, by the kernel's count for this process.

#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/saved_state.h"

namespace stretto::trainer {
namespace {

struct Layout {
  int tp = 1, dp = 1, zero = 0;
};

int64_t BytesReadSoFar() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t value = 0;
  while (io >> name >> value) {
    if (name == "rchar:") return value;
  }
  ADD_FAILURE() << "/proc/self/io has no rchar";
  return 0;
}

class ResumeReadsTest : public TinyJobTest {
 protected:
  ResumeReadsTest() {
    config_.engine.model = {.layers = 2,
                            .hidden = 128,
                            .heads = 4,
                            .ffn_hidden = 512,
                            .sequence_length = 8,
                            .vocab_size = 100};
    config_.engine.micro_batches = 1;
    config_.spec_hash = "spec";
    config_.math_hash = "math";
    config_.resume_folder = folder_ / "job";
  }

  void Use(const Layout& layout) {
    config_.engine.tp_size = layout.tp;
    config_.engine.dp_size = layout.dp;
    config_.engine.zero = layout.zero;
  }

  // Returns the bytes of the tensors.
  int64_t Save(int64_t step) {
    std::mutex mu;
    std::vector<ShardInfo> shards(static_cast<size_t>(config_.engine.world_size()));
    int64_t bytes = 0;
    OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
      const auto shard = WriteShard(config_.resume_folder, step, {Epoch(1)}, rank.config.rank,
                                    engine.OwnedStateTensors());
      ASSERT_TRUE(shard.ok()) << shard.status();
      const std::lock_guard lock(mu);
      bytes += shard->file.size;
      shards[rank.config.rank.position()] = *shard;
    });
    TrainingState state;
    state.step = step;
    state.epoch = 1;
    state.spec_hash = "spec";
    state.math_hash = "math";
    state.padded_vocab = 128;
    EXPECT_TRUE(Commit(config_.resume_folder, state, shards, 1).ok());
    return bytes;
  }

  // Returns what all ranks together read.
  int64_t Load() {
    int64_t begin = 0, end = 0;
    OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
      const bool first = rank.config.rank.value() == 0;
      if (first) begin = BytesReadSoFar();
      ASSERT_TRUE(rank.control->Run(Collective::Barrier()).ok());
      DamagedStates damaged;
      const auto saved = FindSavedState(rank.config, *rank.control, {}, damaged);
      ASSERT_TRUE(saved.ok()) << saved.status();
      const absl::Status mine = Resume(rank.config, "", **saved, engine).status();
      const auto loaded = AllLoaded(saved->get(), mine, *rank.control, &damaged);
      ASSERT_TRUE(loaded.ok() && *loaded) << loaded.status();
      if (first) end = BytesReadSoFar();
    });
    return end - begin;
  }
};

// Times the size of the checkpoint. Where ranks hold the same elements, each of them reads these.
TEST_F(ResumeReadsTest, EachByteIsReadOnceByEachRankThatNeedsIt) {
  struct Case {
    Layout from, to;
    double times;
  };
  const Case cases[] = {
      {{.tp = 2}, {.tp = 2}, 1},     {{.tp = 2}, {}, 1},
      {{}, {.tp = 2}, 1.5},  // rank 0 verifies the one file, of which it needs a half
      {{.dp = 2}, {.dp = 2}, 2},     {{.dp = 2, .zero = 1}, {.dp = 2, .zero = 1}, 1},
      {{.dp = 2, .zero = 1}, {}, 1},
  };
  int64_t step = 1;
  for (const Case& c : cases) {
    SCOPED_TRACE(absl::StrCat(c.from.tp, " x ", c.from.dp, " to ", c.to.tp, " x ", c.to.dp));
    Use(c.from);
    const auto size = static_cast<double>(Save(++step));
    Use(c.to);
    const auto read = static_cast<double>(Load());
    EXPECT_GE(read, c.times * size);
    // Manifest and headers, which every rank reads twice, and tensors that all ranks hold.
    EXPECT_LT(read, (c.times + 0.2) * size);
  }
}

}  // namespace
}  // namespace stretto::trainer
