// SPDX-License-Identifier: Apache-2.0
#include "worker/data/training_data.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/llmc_file.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/tokenizer_info.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TrainingDataTest : public testing::Test {
 protected:
  // Tokens first, first + 1, ... in documents of these lengths.
  void Write(const std::string& name, const std::vector<int32_t>& documents, int32_t first = 0) {
    auto writer = IndexedDatasetWriter::Create(folder_ / name, TokenType::kI32, true);
    for (const int32_t length : documents) {
      std::vector<int32_t> tokens(static_cast<size_t>(length));
      std::iota(tokens.begin(), tokens.end(), first);
      first += length;
      EXPECT_TRUE(writer->AddDocument(tokens).ok());
    }
    EXPECT_TRUE(writer->Finish().ok());
  }

  DataConfig Config(std::vector<DataPart> parts, double held_out = 0) {
    return {.root = folder_.path(),
            .parts = std::move(parts),
            .held_out = held_out,
            .sequence_length = 4,
            .seed = 9,
            .vocab_size = 100000};
  }

  // All tokens of samples [0, count), targets included.
  static std::set<int32_t> TokensOf(const Sampler& sampler, int64_t count) {
    std::set<int32_t> all;
    std::vector<int32_t> tokens(4), targets(4);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_TRUE(sampler.ReadBatch(i, 1, tokens.data(), targets.data()).ok());
      all.insert(tokens.begin(), tokens.end());
      all.insert(targets.begin(), targets.end());
    }
    return all;
  }

  // The least token that is held out, where nothing of it is trained on and all else is.
  int32_t HeldOutFrom(const TrainingData& data) {
    const std::set<int32_t> held_out =
        TokensOf(*data.held_out(), data.held_out()->samples_per_epoch());
    const std::set<int32_t> train = TokensOf(data.train(), 3 * data.train().samples_per_epoch());
    EXPECT_LT(*train.rbegin(), *held_out.begin());
    EXPECT_EQ(*train.begin(), 0);
    EXPECT_GE(*train.rbegin() + 4, *held_out.begin() - 1);  // less than a sample is lost
    return *held_out.begin();
  }

  std::string Refused(const DataConfig& config) {
    const absl::Status status = TrainingData::Open(config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  TestFolder folder_;
};

TEST_F(TrainingDataTest, WithoutHeldOutAllIsTrainedOn) {
  Write("a", {41});
  const auto data = TrainingData::Open(Config({{"a"}}));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->held_out(), nullptr);
  EXPECT_EQ(data->train().samples_per_epoch(), 10);
  EXPECT_EQ(TokensOf(data->train(), 10).size(), 41u);
}

TEST_F(TrainingDataTest, HeldOutBeginsWithADocumentAndIsNeverTrainedOn) {
  Write("a", std::vector<int32_t>(10, 10));
  EXPECT_EQ(HeldOutFrom(*TrainingData::Open(Config({{"a"}}, 0.2))), 80);
  EXPECT_EQ(HeldOutFrom(*TrainingData::Open(Config({{"a"}}, 0.24))), 80);  // the next one
  Write("b", {75, 15, 10});
  EXPECT_EQ(HeldOutFrom(*TrainingData::Open(Config({{"b"}}, 0.3))), 75);
}

TEST_F(TrainingDataTest, ALongDocumentIsCut) {
  Write("a", {100});
  EXPECT_EQ(HeldOutFrom(*TrainingData::Open(Config({{"a"}}, 0.2))), 80);
  Write("b", {95, 5});  // would leave a quarter of the share
  EXPECT_EQ(HeldOutFrom(*TrainingData::Open(Config({{"b"}}, 0.2))), 80);
  Write("c", {93, 7});  // would leave less than a sample and a half of it
  EXPECT_EQ(HeldOutFrom(*TrainingData::Open(Config({{"c"}}, 0.09))), 93);
}

TEST_F(TrainingDataTest, HeldOutIsInTheOrderOfTheData) {
  Write("a", std::vector<int32_t>(10, 10));
  const auto data = TrainingData::Open(Config({{"a"}}, 0.2));
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->held_out()->samples_per_epoch(), 4);
  std::vector<int32_t> tokens(20), targets(20);
  ASSERT_TRUE(data->held_out()->ReadBatch(0, 5, tokens.data(), targets.data()).ok());
  EXPECT_THAT(tokens, ElementsAre(80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95,
                                  80, 81, 82, 83));
  EXPECT_EQ(targets[15], 96);
}

TEST_F(TrainingDataTest, DocumentsOfTokenFilesAreFoundByTheirFirstToken) {
  std::vector<int64_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), 0);
  tokens[85] = 50256;
  Spill(folder_ / "a.bin", LlmcFile({tokens.begin(), tokens.begin() + 60}));
  Spill(folder_ / "b.bin", LlmcFile({tokens.begin() + 60, tokens.end()}));
  const auto data = TrainingData::Open(Config({{"llmc:*.bin"}}, 0.2));
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> inputs(4), targets(4);
  ASSERT_TRUE(data->held_out()->ReadBatch(0, 1, inputs.data(), targets.data()).ok());
  EXPECT_THAT(inputs, ElementsAre(50256, 86, 87, 88));
  EXPECT_EQ(*TokensOf(data->train(), 100).rbegin(), 84);
}

TEST_F(TrainingDataTest, PartsOfABlendAreMixedInProportionAndEachSplit) {
  Write("a", std::vector<int32_t>(10, 10));
  Write("b", std::vector<int32_t>(20, 10), 1000);
  const auto data = TrainingData::Open(Config({{"a", 3}, {"b", 1}}, 0.1));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train().samples_per_epoch(), 22 + 44);
  EXPECT_EQ(data->held_out()->samples_per_epoch(), 2 + 4);
  for (const Sampler* sampler : {&data->train(), data->held_out()}) {
    std::vector<int32_t> tokens(4 * 400), targets(4 * 400);
    ASSERT_TRUE(sampler->ReadBatch(0, 400, tokens.data(), targets.data()).ok());
    int of_a = 0;
    for (size_t i = 0; i < tokens.size(); i += 4) of_a += tokens[i] < 1000;
    EXPECT_EQ(of_a, 300);
  }
  const std::set<int32_t> train = TokensOf(data->train(), 1000);
  const std::set<int32_t> held_out = TokensOf(*data->held_out(), 1000);
  for (const int32_t token : held_out) EXPECT_FALSE(train.count(token)) << token;
  EXPECT_EQ(*held_out.begin(), 90);
  EXPECT_EQ(*std::prev(held_out.upper_bound(999)), 98);  // two samples of a
  EXPECT_EQ(*held_out.upper_bound(999), 1180);
}

TEST_F(TrainingDataTest, UnshuffledTrainingDataComesInItsOwnOrder) {
  Write("a", {41});
  DataConfig config = Config({{"a"}});
  config.shuffle = false;
  const auto data = TrainingData::Open(config);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train().Locate(3).second, 12);
}

TEST_F(TrainingDataTest, TooLittleToHoldOutIsRefused) {
  Write("a", {100});
  EXPECT_EQ(
      Refused(Config({{"a"}}, 0.04)),
      (folder_ / "a") +
          ": found 4 tokens held out, 0.04 of 100, expected at least sequence_length + 1 = 5");
  EXPECT_TRUE(TrainingData::Open(Config({{"a"}}, 0.05)).ok());
  Write("b", {4});
  EXPECT_EQ(Refused(Config({{"a"}, {"b"}})),
            (folder_ / "b") + ": found 4 tokens, expected at least sequence_length + 1 = 5");
}

TEST_F(TrainingDataTest, TokenizersMustBeTheSame) {
  Write("a", {100});
  Write("b", {100});
  Write("c", {100});
  ASSERT_TRUE(WriteTokenizerInfo(folder_ / "b", {"bytes", 257, 256, "abc"}).ok());
  ASSERT_TRUE(WriteTokenizerInfo(folder_ / "c", {"bytes", 257, 256, "def"}).ok());
  const auto alone = TrainingData::Open(Config({{"a"}}));
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->tokenizer_hash(), "");
  EXPECT_EQ(alone->tokenizer_prefix(), "");
  const auto same = TrainingData::Open(Config({{"a"}, {"b"}}));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->tokenizer_hash(), "abc");
  EXPECT_EQ(same->tokenizer_prefix(), folder_ / "b");
  const std::string message = (folder_ / "c") +
                              ".tokenizer.json: found a tokenizer with hash def, expected abc as "
                              "in " +
                              (folder_ / "b") + ".tokenizer.json";
  EXPECT_EQ(Refused(Config({{"b"}, {"a"}, {"c"}})), message);

  const auto other = TrainingData::Open(Config({{"c"}}));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(CheckSameTokenizer(*other, *same).message(), message);
  EXPECT_TRUE(CheckSameTokenizer(*other, *alone).ok());
  EXPECT_TRUE(CheckSameTokenizer(*same, *same).ok());
}

TEST_F(TrainingDataTest, ATokenizerWithMoreTokensThanTheModelIsRefused) {
  Write("a", {100});
  ASSERT_TRUE(WriteTokenizerInfo(folder_ / "a", {"bytes", 257, 256, "abc"}).ok());
  DataConfig config = Config({{"a"}});
  config.vocab_size = 257;
  EXPECT_TRUE(TrainingData::Open(config).ok());
  config.vocab_size = 256;
  EXPECT_EQ(Refused(config), (folder_ / "a") +
                                 ".tokenizer.json: found a tokenizer of 257 tokens, expected at "
                                 "most model.vocab_size 256");
  Spill(folder_ / "a.tokenizer.json", "[]");
  EXPECT_THAT(Refused(config), HasSubstr("found no JSON object"));
}

TEST_F(TrainingDataTest, TokensBeyondTheVocabularyAreFoundInEveryPart) {
  Write("a", {100});
  Spill(folder_ / "b.bin", LlmcFile(std::vector<int64_t>(50, 7000)));
  DataConfig config = Config({{"a"}, {"llmc:b.bin"}});
  config.vocab_size = 7000;
  EXPECT_EQ(Refused(config), (folder_ / "b.bin") +
                                 ": token 0 at byte 1024: found 7000, expected a token in [0, "
                                 "7000)");
}

TEST_F(TrainingDataTest, DocumentsWithoutTokensDoNotCount) {
  Write("a", {0, 90, 0, 0, 10, 0});
  EXPECT_EQ(HeldOutFrom(*TrainingData::Open(Config({{"a"}}, 0.12))), 90);
  Write("b", {0});
  EXPECT_THAT(Refused(Config({{"b"}})), HasSubstr("found 0 tokens in 1 sequences"));
}

// In files of llm.c too, whose first token does not count: it begins a document by itself.
TEST_F(TrainingDataTest, AMaskOfDocumentsNeedsSeveral) {
  Write("one", {40});
  Write("other", {60});
  Write("several", {30, 30});
  Spill(folder_ / "web.bin", LlmcFile(std::vector<int64_t>(40, 7)));
  const auto status = [&](std::vector<DataPart> parts) {
    DataConfig config = Config(std::move(parts));
    config.document_mask = true;
    return TrainingData::Open(config).status();
  };
  EXPECT_EQ(status({{"several"}}), absl::OkStatus());
  EXPECT_EQ(status({{"one"}, {"several"}}), absl::OkStatus());
  const absl::Status one = status({{"one"}}), both = status({{"one"}, {"other"}});
  EXPECT_EQ(one.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(one.message(), "data.document_mask: found one document in " + (folder_ / "one") +
                               ", expected several");
  EXPECT_THAT(both.message(), HasSubstr("/one and in each of the other data sets, expected"));
  EXPECT_THAT(status({{"llmc:web.bin"}}).message(), HasSubstr("found one document in llmc:"));
}

}  // namespace
}  // namespace stretto
