// SPDX-License-Identifier: Apache-2.0

// What fine-tuning needs: texts from the model that is trained, lengths other than steps, and data
// of which only parts are trained on.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/mask.h"
#include "worker/data/tokenizer_info.h"

namespace stretto::integration {
namespace {

using ::testing::HasSubstr;

class SamplesTest : public ClusterTest {
 protected:
  // In each pair the second token follows from the first, and what the first one is, is noise.
  void WritePairs(const std::string& name, bool masked) {
    std::vector<int32_t> tokens, mask;
    for (int i = 0; i < 4000; ++i) {
      const bool follows = i % 2 == 1;
      tokens.push_back(follows ? (tokens.back() + 1) % 50 : (i / 2 * 7919) % 50);
      mask.push_back(follows ? 1 : 0);
    }
    const std::string prefix = Path("data/" + name);
    auto writer = IndexedDatasetWriter::Create(prefix, TokenType::kU16, true);
    ASSERT_TRUE(writer->AddDocument(tokens).ok() && writer->Finish().ok());
    auto masks = IndexedDatasetWriter::Create(MaskPrefix(prefix), TokenType::kU8, true);
    ASSERT_TRUE(masks->AddDocument(mask).ok() && masks->Finish().ok());
    ASSERT_TRUE(WriteTokenizerInfo(prefix, {"bytes", 257, 256, "abc"}, masked).ok());
  }
};

TEST_F(SamplesTest, TextsFromCheckpointsAreShownAndStored) {
  StartCluster();
  const Json job = RunJob({.name = "writer",
                           .steps = 6,
                           .more = "checkpoint: {interval_steps: 2}\n"
                                   "sample: {interval_steps: 4, prompts: [\"the \", \"a\\n\"], "
                                   "tokens: 5}\n"});
  const Json& samples = job["samples"];
  ASSERT_EQ(samples.size(), 2u) << samples.dump();  // of step 4, and of the last one
  EXPECT_EQ(Int(samples[0]["step"]), 4);
  EXPECT_EQ(Int(samples[1]["step"]), 6);
  ASSERT_EQ(samples[1]["samples"].size(), 2u) << samples.dump();
  EXPECT_EQ(samples[1]["samples"][0]["prompt"], "the ");
  EXPECT_FALSE(samples[1]["samples"][0]["ending"].get<std::string>().empty());
  std::ifstream record(CheckpointFolder("writer") + "/samples.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(record, line);) lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["step"], 6);
  EXPECT_EQ(lines[1]["samples"][1]["prompt"], "a\n");
  const std::string described = Stretto({"job", "describe", "writer"}).out;
  EXPECT_THAT(described, HasSubstr("sample of step 6: [the ] "));
  EXPECT_THAT(described, ::testing::ContainsRegex("Epochs: +0.[0-9]+ done, one has [0-9]+ steps"));
  EXPECT_THAT(Stretto({"job", "watch", "writer"}).out, HasSubstr("sample of step 6: [the ] "));
}

TEST_F(SamplesTest, AJobWhoseModelCannotBeSampledSaysWhyAndTrains) {
  StartCluster();
  std::filesystem::remove(Path("data/text.tokenizer.json"));  // nobody knows what tokens mean
  const Json job = RunJob({.name = "mute",
                           .steps = 2,
                           .more = "checkpoint: {interval_steps: 2}\n"
                                   "sample: {interval_steps: 2, prompts: [\"the\"]}\n"});
  ASSERT_EQ(job["samples"].size(), 1u);
  EXPECT_THAT(job["samples"][0]["error"].get<std::string>(), HasSubstr("tokenizer"));
}

TEST_F(SamplesTest, EpochsAndTokensAreLengthsToo) {
  StartCluster();
  const auto submit = [&](const std::string& length) {
    return Stretto({"job", "submit", Write({.name = "long"}), "--dry-run", "-o", "json", "--set",
                    "steps=null", "--set", length});
  };
  const Outcome tokens = submit("tokens=5000");
  ASSERT_EQ(tokens.code, 0) << tokens.err;
  const Json spec = tokens.json()["job"]["spec"];
  const auto of_step =
      static_cast<double>(Int(spec["global_batch_size"]) * Int(spec["model"]["sequence_length"]));
  EXPECT_EQ(static_cast<double>(Int(spec["steps"])), std::ceil(5000 / of_step));
  const Outcome one = submit("epochs=1"), three = submit("epochs=3");
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(three.code, 0) << three.err;
  const int64_t steps = Int(one.json()["job"]["spec"]["steps"]);
  EXPECT_EQ(Int(three.json()["job"]["spec"]["steps"]), 3 * steps);
  EXPECT_THAT(one.json()["job"]["conditions"].dump(),
              HasSubstr(absl::StrCat("epoch: ", steps, " steps")));
}

// The same tokens twice, of which one data set masks the half that nobody can know.
TEST_F(SamplesTest, WhatIsMaskedIsNotLearned) {
  WritePairs("one", true);
  WritePairs("two", false);
  StartCluster();
  const std::string more = "optimizer: {learning_rate: 1.0e-2}\n";
  RunJob({.name = "masked", .steps = 120, .data = "one", .more = more});
  RunJob({.name = "whole", .steps = 120, .data = "two", .more = more});
  EXPECT_LT(Losses("masked").back(), 0.75 * Losses("whole").back());
}

}  // namespace
}  // namespace stretto::integration
