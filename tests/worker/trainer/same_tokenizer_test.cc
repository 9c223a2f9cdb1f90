// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/same_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/worker/trainer/tiny_job.h"
#include "worker/data/tokenizer_info.h"

namespace stretto::trainer {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// SHA-256 of "{}" and of "bytes".
constexpr char kHashOfBraces[] = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
constexpr char kHashOfBytes[] = "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9";

class SameTokenizerTest : public TinyJobTest {
 protected:
  void Note(const std::string& part, const std::string& kind, const std::string& hash) {
    EXPECT_TRUE(
        WriteTokenizerInfo(folder_ / part,
                           {.kind = kind, .vocab_size = 100, .end_of_document = 1, .hash = hash})
            .ok());
  }

  // Files beside the weights.
  Origin Weights(const std::vector<std::string>& names) {
    Origin origin{.tokenizer = "files", .tokenizer_files = {}};
    fs::create_directories(folder_ / "model");
    for (const std::string& name : names) {
      const std::string path = folder_ / ("model/" + name);
      Spill(path, "{}");
      origin.tokenizer_files.push_back(path);
    }
    return origin;
  }

  absl::Status Check(const Origin& weights) {
    const auto data = TrainingData::Open(config_.data);
    return data.ok() ? CheckTokenizerOfWeights(*data, weights) : data.status();
  }

  void ExpectRefused(const Origin& weights, const std::vector<std::string>& parts) {
    const absl::Status status = Check(weights);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    for (const std::string& part : parts)
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
};

TEST_F(SameTokenizerTest, TheSameFileIsTheSameTokenizer) {
  Note("text", "byte_pair", kHashOfBraces);
  EXPECT_TRUE(Check(Weights({"tokenizer.json", "tokenizer_config.json"})).ok());
  Note("text", "sentencepiece", kHashOfBraces);
  EXPECT_TRUE(Check(Weights({"tokenizer.model"})).ok());
}

TEST_F(SameTokenizerTest, OneOfSeveralFilesSuffices) {
  Note("text", "sentencepiece", kHashOfBraces);
  const Origin both = Weights({"tokenizer.json", "tokenizer.model"});
  Spill(both.tokenizer_files[0], "another");
  EXPECT_TRUE(Check(both).ok());
}

TEST_F(SameTokenizerTest, BothAreNamedWhereTheyDiffer) {
  const std::string note = folder_ / "text.tokenizer.json: found tokenizer ";
  const std::string file = folder_ / "model/tokenizer.json";
  Note("text", "bytes", kHashOfBytes);
  ExpectRefused(Weights({"tokenizer.json"}),
                {note + "bytes with hash " + kHashOfBytes,
                 "expected that of the weights, " + file + " with hash " + kHashOfBraces,
                 "set data.allow_other_tokenizer"});
  ExpectRefused(Weights({"vocab.json", "merges.txt"}), {"model/vocab.json with hash "});
  Note("text", "byte_pair", std::string(64, 'a'));
  ExpectRefused(Weights({"tokenizer.json", "tokenizer.model"}),
                {note + "byte_pair with hash aaaa", " or " + (folder_ / "model/tokenizer.model")});
}

TEST_F(SameTokenizerTest, WhatIsNotKnownIsNotCompared) {
  EXPECT_TRUE(Check(Weights({"tokenizer.json"})).ok());  // data of another program
  Note("text", "byte_pair", std::string(64, 'a'));
  EXPECT_TRUE(Check({}).ok());
  EXPECT_TRUE(Check(Weights({"vocab.json", "merges.txt"})).ok());
}

// A part without a note does not hide that another part has one.
TEST_F(SameTokenizerTest, EveryPartOfABlendCounts) {
  for (const char* end : {".bin", ".idx"})
    fs::copy_file(folder_ / (std::string("text") + end), folder_ / (std::string("more") + end));
  config_.data.parts = {{"text"}, {"more"}};
  const Origin weights = Weights({"tokenizer.json"});
  EXPECT_TRUE(Check(weights).ok());
  Note("more", "bytes", kHashOfBytes);
  ExpectRefused(weights, {folder_ / "more.tokenizer.json: found tokenizer bytes"});
}

// A link out of the data root is not followed.
TEST_F(SameTokenizerTest, FilesOutsideTheRootAreNotRead) {
  Note("text", "byte_pair", kHashOfBraces);
  Origin weights = Weights({"tokenizer.json"});
  weights.root = folder_ / "model";
  fs::remove(weights.tokenizer_files[0]);
  Spill(folder_ / "secret", "{}");
  fs::create_symlink(folder_ / "secret", weights.tokenizer_files[0]);
  EXPECT_EQ(Check(weights).code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace stretto::trainer
