// SPDX-License-Identifier: Apache-2.0
#include "worker/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int64_t> Epoch(uint64_t seed, int64_t epoch, int64_t count) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < count; ++i) order.push_back(Permute(seed, epoch, count, i));
  return order;
}

TEST(PermuteTest, VisitsEverySampleOnceForEveryCount) {
  for (int64_t count : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    std::vector<int64_t> order = Epoch(7, 0, count);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i) << count;
  }
}

TEST(PermuteTest, SeedAndEpochChangeTheOrderAndNothingElseDoes) {
  EXPECT_EQ(Epoch(7, 0, 100), Epoch(7, 0, 100));
  EXPECT_NE(Epoch(7, 0, 100), Epoch(8, 0, 100));
  EXPECT_NE(Epoch(7, 0, 100), Epoch(7, 1, 100));
}

// Another order would silently feed resumed runs other data.
TEST(PermuteTest, OrderIsFixedForEver) {
  EXPECT_THAT(Epoch(1234, 0, 8), ElementsAre(3, 2, 7, 1, 6, 4, 5, 0));
  EXPECT_THAT(Epoch(1234, 1, 8), ElementsAre(4, 1, 2, 3, 5, 7, 6, 0));
}

TEST(PermuteTest, LooksRandom) {
  // Of a random permutation of n, neighbours differ by n/3 on average, and one point is fixed.
  const int64_t n = 20000;
  const std::vector<int64_t> order = Epoch(3, 0, n);
  double distance = 0;
  int fixed = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0) distance += std::abs(static_cast<double>(order[i] - order[i - 1]));
    fixed += order[i] == static_cast<int64_t>(i);
  }
  EXPECT_NEAR(distance / static_cast<double>(n - 1) / static_cast<double>(n), 1.0 / 3, 0.01);
  EXPECT_LT(fixed, 10);
}

class SamplerTest : public testing::Test {
 protected:
  IndexedDataset Write(int32_t count) {
    auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, true);
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 0);
    EXPECT_TRUE(writer->AddDocument(tokens).ok());
    EXPECT_TRUE(writer->Finish().ok());
    return std::move(IndexedDataset::Open(prefix_)).value();
  }

  TestFolder folder_;
  std::string prefix_ = folder_ / "text";
};

TEST_F(SamplerTest, HalfABatchIsThatOfAWholeOne) {
  const IndexedDataset dataset = Write(13);
  const auto sampler = Sampler::Create(dataset, {4, 1, 13});
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  std::vector<int32_t> tokens(12), targets(12), inputs_alone(12), targets_alone(12);
  ASSERT_TRUE(sampler->ReadBatch(0, 3, tokens.data(), targets.data()).ok());
  ASSERT_TRUE(sampler->ReadBatch(0, 3, inputs_alone.data(), nullptr).ok());
  ASSERT_TRUE(sampler->ReadBatch(0, 3, nullptr, targets_alone.data()).ok());
  EXPECT_EQ(inputs_alone, tokens);
  EXPECT_EQ(targets_alone, targets);
  EXPECT_TRUE(sampler->ReadBatch(0, 3, nullptr, nullptr).ok());
}

TEST_F(SamplerTest, SamplesAreCutWithOneTokenInCommonAndTargetsShiftByOne) {
  const IndexedDataset dataset = Write(13);  // samples [0..4] [4..8] [8..12]
  const auto sampler = Sampler::Create(dataset, {4, 1, 13});
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  ASSERT_EQ(sampler->samples_per_epoch(), 3);
  std::vector<int32_t> tokens(12), targets(12);
  ASSERT_TRUE(sampler->ReadBatch(0, 3, tokens.data(), targets.data()).ok());
  std::set<int32_t> begins;
  for (size_t row = 0; row < 3; ++row) {
    begins.insert(tokens[row * 4]);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(tokens[row * 4 + i], tokens[row * 4] + static_cast<int32_t>(i));
      EXPECT_EQ(targets[row * 4 + i], tokens[row * 4 + i] + 1);
    }
  }
  EXPECT_THAT(begins, ElementsAre(0, 4, 8));
}

TEST_F(SamplerTest, DocumentsBeginWhereTheIndexSaysAndWithEachSample) {
  auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, true);
  for (int32_t tokens : {3, 4, 1, 0, 1, 6})
    ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>(static_cast<size_t>(tokens))).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const IndexedDataset dataset = std::move(IndexedDataset::Open(prefix_)).value();
  // Documents at tokens 0, 3, 7, 8 and 9 of 15; samples of tokens 0 to 6 and 7 to 13.
  const auto sampler = Sampler::Create(
      dataset, {.sequence_length = 7, .seed = 1, .vocab_size = 9, .shuffle = false});
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  std::vector<int32_t> documents(14);
  sampler->FindDocuments(0, 2, documents.data());
  EXPECT_THAT(documents, ElementsAre(0, 0, 0, 3, 3, 3, 3, 0, 1, 2, 2, 2, 2, 2));
  // In the middle of a document.
  const auto later = Sampler::Create(
      {{&dataset, 5, 15}}, {.sequence_length = 4, .seed = 1, .vocab_size = 9, .shuffle = false});
  ASSERT_TRUE(later.ok()) << later.status();
  later->FindDocuments(0, 2, documents.data());
  documents.resize(8);
  EXPECT_THAT(documents, ElementsAre(0, 0, 2, 3, 0, 0, 0, 0));
  later->FindDocuments(0, 2, nullptr);
}

TEST_F(SamplerTest, ResumedRunContinuesAtTheExactSampleAcrossEpochs) {
  const IndexedDataset dataset = Write(101);
  const auto sampler = Sampler::Create(dataset, {4, 9, 101});
  std::vector<int32_t> whole(60 * 4), part(60 * 4), targets(60 * 4);
  ASSERT_TRUE(sampler->ReadBatch(0, 60, whole.data(), targets.data()).ok());
  const auto resumed = Sampler::Create(dataset, {4, 9, 101});
  for (int64_t at = 0; at < 60; at += 5) {
    ASSERT_TRUE(resumed->ReadBatch(at, 5, part.data() + at * 4, targets.data()).ok());
  }
  EXPECT_EQ(whole, part);
  EXPECT_FALSE(std::equal(whole.begin(), whole.begin() + 100, whole.begin() + 100));
}

TEST_F(SamplerTest, APartOfAStreamIsReadAndNothingElse) {
  const IndexedDataset dataset = Write(101);
  const auto sampler = Sampler::Create({{&dataset, 10, 23}}, {4, 9, 101});
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  ASSERT_EQ(sampler->samples_per_epoch(), 3);
  std::set<int64_t> begins;
  for (int64_t i = 0; i < 3; ++i) begins.insert(sampler->Locate(i).second);
  EXPECT_THAT(begins, ElementsAre(10, 14, 18));
  EXPECT_TRUE(Sampler::Create({{&dataset, 10, 15}}, {4, 9, 101}).ok());
  EXPECT_FALSE(Sampler::Create({{&dataset, 10, 14}}, {4, 9, 101}).ok());
}

// Of a blend each part goes through epochs of its own, in an order of its own.
TEST_F(SamplerTest, EveryPartOfABlendHasEachSampleOncePerItsEpoch) {
  const IndexedDataset dataset = Write(101);
  const std::vector<SampledTokens> parts = {
      {&dataset, 0, 41, 2}, {&dataset, 41, 81, 5}, {&dataset, 81, 101, 1}};
  const auto sampler = Sampler::Create(parts, {4, 9, 101});
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  EXPECT_EQ(sampler->samples_per_epoch(), 10 + 9 + 4);
  std::vector<std::vector<int64_t>> seen(3);
  for (int64_t i = 0; i < 400; ++i) {
    const int64_t begin = sampler->Locate(i).second;
    seen[begin < 41 ? 0 : begin < 81 ? 1 : 2].push_back(begin);
  }
  EXPECT_EQ(seen[0].size(), 100u);
  EXPECT_EQ(seen[1].size(), 250u);
  EXPECT_EQ(seen[2].size(), 50u);
  const size_t epochs[] = {10, 9, 4};
  for (size_t part = 0; part < 3; ++part) {
    for (size_t i = 0; i + epochs[part] <= seen[part].size(); i += epochs[part]) {
      const auto begin = seen[part].begin() + static_cast<ptrdiff_t>(i);
      EXPECT_EQ(std::set<int64_t>(begin, begin + static_cast<ptrdiff_t>(epochs[part])).size(),
                epochs[part]);
    }
  }
}

TEST_F(SamplerTest, PartsOfOneLengthAreNotInOneOrder) {
  const IndexedDataset dataset = Write(101);
  const auto sampler = Sampler::Create({{&dataset, 0, 41}, {&dataset, 60, 101}}, {4, 9, 101});
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  std::vector<int64_t> orders[2];
  for (int64_t i = 0; i < 20; ++i) {
    const int64_t begin = sampler->Locate(i).second;
    orders[begin < 60 ? 0 : 1].push_back(begin % 60);
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST_F(SamplerTest, ResumedBlendContinuesAtTheExactSample) {
  const IndexedDataset dataset = Write(101);
  const std::vector<SampledTokens> parts = {{&dataset, 0, 41, 0.7}, {&dataset, 41, 101, 0.3}};
  const auto sampler = Sampler::Create(parts, {4, 9, 101});
  const auto resumed = Sampler::Create(parts, {4, 9, 101});
  ASSERT_TRUE(sampler.ok() && resumed.ok());
  std::vector<int32_t> whole(60 * 4), part(60 * 4), targets(60 * 4);
  ASSERT_TRUE(sampler->ReadBatch(0, 60, whole.data(), targets.data()).ok());
  for (int64_t at = 55; at >= 0; at -= 5) {  // in any order
    ASSERT_TRUE(resumed->ReadBatch(at, 5, part.data() + at * 4, targets.data()).ok());
  }
  EXPECT_EQ(whole, part);
}

TEST_F(SamplerTest, DataShorterThanOneSampleIsRefused) {
  const IndexedDataset dataset = Write(8);
  EXPECT_TRUE(Sampler::Create(dataset, {7, 1, 8}).ok());
  const absl::Status status = Sampler::Create(dataset, {8, 1, 8}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("text: found 8 tokens, expected at least sequence_length + 1 = 9"));
}

TEST_F(SamplerTest, TokenOutsideTheVocabularyIsRefusedAlsoAsTheLastTarget) {
  const IndexedDataset dataset = Write(9);
  const auto sampler = Sampler::Create(dataset, {8, 1, 8});
  std::vector<int32_t> tokens(8), targets(8);
  const absl::Status status = sampler->ReadBatch(0, 1, tokens.data(), targets.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("text.bin: token 8 at byte 16: found 8, expected a token in [0, 8)"));
}

}  // namespace
}  // namespace stretto
