// SPDX-License-Identifier: Apache-2.0
#include "worker/data/batch.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"

namespace stretto {
namespace {

using testing::HasSubstr;

class BatchTest : public testing::Test {
 protected:
  // Tokens count on from `first`.
  void Write(const std::string& name, int32_t first) {
    auto writer = IndexedDatasetWriter::Create(folder_ / name, TokenType::kU16, true);
    std::vector<int32_t> tokens(41);
    std::iota(tokens.begin(), tokens.end(), first);
    ASSERT_TRUE(writer.ok() && writer->AddDocument(tokens).ok() && writer->Finish().ok());
  }
  BatchOptions Options(int64_t step) const {
    return {.data = {.root = folder_.path(),
                     .parts = {{"a"}},
                     .sequence_length = 8,
                     .seed = 3,
                     .vocab_size = 1000},
            .sequences = 2,
            .step = step};
  }
  TestFolder folder_;
};

TEST_F(BatchTest, SaysWhereEverySampleLies) {
  Write("a", 0);
  BatchOptions options = Options(1);
  options.data.shuffle = false;
  options.tokens = 3;
  const auto text = DescribeBatch(options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "sample 0: " + (folder_ / "a") + " at token 0: 0 1 2 ...\n" +
                       "sample 1: " + (folder_ / "a") + " at token 8: 8 9 10 ...\n");
}

TEST_F(BatchTest, StepsOfAnEpochHaveEachSampleOnce) {
  Write("a", 0);
  Write("b", 100);
  BatchOptions options = Options(1);
  options.data.parts.push_back({"b"});
  options.format = OutputFormat::kJson;
  std::set<int32_t> begins;
  for (options.step = 1; options.step <= 5; ++options.step) {
    const auto json = nlohmann::json::parse(DescribeBatch(options).value());
    EXPECT_EQ(json["step"], options.step);
    ASSERT_EQ(json["samples"].size(), 2u);
    for (const auto& sample : json["samples"]) {
      EXPECT_EQ(sample["sample"], begins.size());
      ASSERT_EQ(sample["tokens"].size(), 8u);
      const int32_t first = sample["tokens"][0];
      EXPECT_EQ(sample["data"], folder_ / (first < 100 ? "a" : "b"));
      EXPECT_EQ(sample["begin"], first % 100);
      begins.insert(first);
    }
  }
  EXPECT_EQ(begins.size(), 10u);
}

TEST_F(BatchTest, OtherSeedsHaveOtherSamples) {
  Write("a", 0);
  BatchOptions options = Options(1);
  options.sequences = 5;
  const std::string one = DescribeBatch(options).value();
  EXPECT_EQ(DescribeBatch(options).value(), one);
  options.data.seed = 4;
  EXPECT_NE(DescribeBatch(options).value(), one);
}

TEST_F(BatchTest, DataThatIsNotThereIsAnError) {
  EXPECT_THAT(std::string(DescribeBatch(Options(1)).status().message()), HasSubstr(folder_ / "a"));
}

}  // namespace
}  // namespace stretto
