// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job of one rank that trains in milliseconds, with its data set.

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/sampler.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

class TinyJobTest : public testing::Test {
 protected:
  TinyJobTest() {
    config_.engine.model = {.layers = 1,
                            .hidden = 16,
                            .heads = 2,
                            .ffn_hidden = 32,
                            .sequence_length = 8,
                            .vocab_size = 100};
    config_.engine.schedule.slices = {2};
    config_.engine.micro_batch_size = 2;
    config_.engine.micro_batches = 3;
    config_.optimizer = {.learning_rate = 0.5,
                         .min_learning_rate = 0.5,
                         .beta1 = 0.5,
                         .beta2 = 0.75,
                         .epsilon = 1e-8,
                         .weight_decay = 0.1,
                         .clip_norm = 2,
                         .warmup_steps = 0,
                         .decay_steps = 10,
                         .max_skipped_updates = 5};
    const std::string prefix = folder_ / "text";
    auto writer = IndexedDatasetWriter::Create(prefix, TokenType::kU16, true);
    std::vector<int32_t> tokens(97);
    std::iota(tokens.begin(), tokens.end(), 0);
    EXPECT_TRUE(writer->AddDocument(tokens).ok());
    EXPECT_TRUE(writer->Finish().ok());
    config_.data = {.root = folder_.path(),
                    .parts = {{"text"}},
                    .held_out = 0,
                    .sequence_length = 8,
                    .seed = 1,
                    .vocab_size = 100};
    dataset_ = std::make_unique<IndexedDataset>(std::move(IndexedDataset::Open(prefix)).value());
    sampler_ = std::make_unique<Sampler>(
        Sampler::Create(*dataset_, {.sequence_length = 8, .seed = 1, .vocab_size = 100}).value());
  }

  std::unique_ptr<RankEngine> MakeEngine(OnBegin on_begin = {}) {
    return RankEngine::Create(config_.engine, 0, Variant::kSchedule, {}, *backend_,
                              std::move(on_begin))
        .value();
  }

  TestFolder folder_;
  JobConfig config_;
  std::unique_ptr<IndexedDataset> dataset_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<Ops> ops_ = MakeCpuOps();
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(*ops_);
};

}  // namespace stretto::trainer
