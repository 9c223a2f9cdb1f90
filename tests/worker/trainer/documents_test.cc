// SPDX-License-Identifier: Apache-2.0

// Where documents begin reaches every stage of every replica before a step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/worker/trainer/local_job.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/trainer/profile.h"

namespace stretto::trainer {
namespace {

class DocumentsTest : public TinyJobTest {
 protected:
  DocumentsTest() {
    config_.engine.document_mask = true;
    auto writer = IndexedDatasetWriter::Create(folder_ / "pages", TokenType::kU16, true);
    for (int32_t page = 0; page < 40; ++page) {
      std::vector<int32_t> tokens(static_cast<size_t>(1 + page % 6));
      std::iota(tokens.begin(), tokens.end(), page);
      EXPECT_TRUE(writer->AddDocument(tokens).ok());
    }
    EXPECT_TRUE(writer->Finish().ok());
    dataset_ = std::make_unique<IndexedDataset>(
        std::move(IndexedDataset::Open(folder_ / "pages")).value());
    sampler_ = std::make_unique<Sampler>(
        Sampler::Create(*dataset_, {.sequence_length = 8, .seed = 1, .vocab_size = 100}).value());
  }
  std::vector<int32_t> Documents(int64_t first, int64_t count) {
    std::vector<int32_t> documents(static_cast<size_t>(count) * 8);
    sampler_->FindDocuments(first, count, documents.data());
    return documents;
  }
};

TEST_F(DocumentsTest, EveryStageAndReplicaHasThoseOfItsSequences) {
  config_.engine.model.layers = 3;
  config_.engine.pp_size = 3;
  config_.engine.dp_size = 2;
  const std::vector<int32_t> all = Documents(6, 12);
  EXPECT_THAT(all, testing::Contains(testing::Gt(0)));
  OnLocalEngines(config_, [&](LocalRank& rank, RankEngine& engine) {
    ASSERT_TRUE(FillStep(rank.config, *sampler_, 6, 2, 1, engine).ok());
    const int replica = PlaceOf(rank.config.engine, rank.config.rank).replica;
    for (int mb = 0; mb < 3; ++mb) {
      const auto expected = all.begin() + (mb * 2 + replica) * 16;
      EXPECT_TRUE(std::equal(expected, expected + 16, engine.documents(mb)))
          << "rank " << rank.config.rank.value() << ", micro-batch " << mb;
    }
  });
}

TEST_F(DocumentsTest, AJobThatDoesNotMaskThemHasNoSuchInput) {
  config_.engine.document_mask = false;
  const auto engine = MakeEngine();
  ASSERT_TRUE(FillStep(config_, *sampler_, 0, 1, 0, *engine).ok());
  EXPECT_EQ(engine->documents(0), nullptr);
}

}  // namespace
}  // namespace stretto::trainer
