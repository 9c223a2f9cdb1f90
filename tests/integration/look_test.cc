// SPDX-License-Identifier: Apache-2.0

// A job that cannot work is refused before it waits for slots, by what a worker finds.

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/tokenizer_info.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class LookTest : public ClusterTest {
 protected:
  // The job is refused, with these parts in what the user reads, and not created.
  void ExpectRefused(const JobFile& job, const std::vector<std::string>& parts) {
    const Outcome outcome = Stretto(Submit(job, {}));
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
    const Json jobs = Stretto({"job", "list", "-o", "json"}).json();
    EXPECT_TRUE(jobs.value("jobs", Json::array()).empty()) << jobs;
  }
  // A data set of which no tokenizer is known.
  void WriteTokens(const std::string& data) {
    auto writer = IndexedDatasetWriter::Create(Path("data/" + data), TokenType::kU16, true);
    ASSERT_TRUE(writer.ok() && writer->AddDocument(std::vector<int32_t>(1000, 7)).ok() &&
                writer->Finish().ok());
  }
  void NoteTokenizer(const std::string& data, int32_t vocab_size, char hash) {
    ASSERT_TRUE(WriteTokenizerInfo(Path("data/" + data), {.kind = "bytes",
                                                          .vocab_size = vocab_size,
                                                          .end_of_document = 1,
                                                          .hash = std::string(64, hash)})
                    .ok());
  }
};

TEST_F(LookTest, WhatAWorkerDoesNotFindIsNamedByFieldAndNothingIsCreated) {
  StartCluster();
  ExpectRefused({.name = "no-data", .data = "none"},
                {"no-data.yaml:3", "spec.data: worker node-a: open ", "data/none.idx"});
  ExpectRefused({.name = "no-weights", .model = "{preset: gpt-tiny, initial_weights: 'hf:none'}"},
                {"spec.model.initial_weights: worker node-a: open ", "data/none"});
  ExpectRefused({.name = "no-state", .more = "checkpoint: {resume_from: nobody}\n"},
                {"spec.checkpoint.resume_from: worker node-a: ", "checkpoints/nobody"});
}

TEST_F(LookTest, DataOfAnotherTokenizerThanTheWeightsIsRefused) {
  StartCluster();
  fs::copy(STRETTO_SOURCE_DIR "/tests/golden/models/gpt2_prefixed", Path("data/weights"));
  ASSERT_TRUE(WriteFileAtomic(Path("data/weights/tokenizer.json"), "{}").ok());
  WriteTokens("few");
  NoteTokenizer("few", 90, 'a');
  JobFile job = {.name = "ruined",
                 .steps = 1,
                 .model =
                     "{layers: 2, hidden: 40, heads: 4, vocab_size: 131, sequence_length: 16, "
                     "initial_weights: 'hf:weights'}",
                 .data = "few"};
  ExpectRefused(job, {"spec.data: worker node-a: ", "found tokenizer bytes with hash aaaa",
                      "expected that of the weights, "});
  job.name = "allowed";
  job.data = "{prefix: few, allow_other_tokenizer: true}";
  RunJob(job);
}

TEST_F(LookTest, DataOfAnotherTokenizerThanTheCheckpointIsRefused) {
  StartCluster();
  RunJob({.name = "saved", .steps = 2});
  ASSERT_EQ(Stretto({"job", "delete", "saved"}).code, 0);
  NoteTokenizer("text", 257, 'b');
  JobFile rest = {.name = "rest", .steps = 4, .more = "checkpoint: {resume_from: saved}\n"};
  ExpectRefused(rest, {"spec.checkpoint.resume_from: worker node-a: ",
                       "checkpoints/saved/step-00000002: tokenizer_hash: found ", "expected bbbb"});
  rest.data = "{prefix: text, allow_other_tokenizer: true}";
  RunJob(rest);
}

// Whichever part of a blend it is that has another one, of the parts that have one.
TEST_F(LookTest, ABlendIsRefusedForAPartOfAnotherTokenizer) {
  StartCluster();
  WriteTokens("plain");
  WriteTokens("few");
  NoteTokenizer("few", 90, 'c');
  const auto blend = [](const std::string& first, const std::string& second) {
    return absl::StrCat("blend: [{prefix: ", first, ", weight: 1}, {prefix: ", second,
                        ", weight: 1}]");
  };
  ExpectRefused({.name = "parts", .data = absl::StrCat("{", blend("text", "few"), "}")},
                {"spec.data: worker node-a: ", "data/few.tokenizer.json: found a tokenizer with ",
                 "hash cccc", " as in ", "data/text.tokenizer.json"});

  fs::copy(STRETTO_SOURCE_DIR "/tests/golden/models/gpt2_prefixed", Path("data/weights"));
  ASSERT_TRUE(WriteFileAtomic(Path("data/weights/tokenizer.json"), "{}").ok());
  JobFile job = {.name = "ruined",
                 .steps = 1,
                 .model =
                     "{layers: 2, hidden: 40, heads: 4, vocab_size: 131, sequence_length: 16, "
                     "initial_weights: 'hf:weights'}",
                 .data = absl::StrCat("{", blend("plain", "few"), "}")};
  ExpectRefused(job, {"spec.data: worker node-a: ", "data/few.tokenizer.json: found tokenizer ",
                      "hash cccc", "expected that of the weights, "});
  job.name = "allowed";
  job.data = absl::StrCat("{", blend("plain", "few"), ", allow_other_tokenizer: true}");
  RunJob(job);
  ASSERT_EQ(Stretto({"job", "delete", "allowed"}).code, 0);

  const std::string both = blend("plain", "text");
  RunJob({.name = "saved", .steps = 2, .data = absl::StrCat("{", both, "}")});
  ASSERT_EQ(Stretto({"job", "delete", "saved"}).code, 0);
  NoteTokenizer("text", 257, 'b');
  JobFile rest = {.name = "rest",
                  .steps = 4,
                  .data = absl::StrCat("{", both, "}"),
                  .more = "checkpoint: {resume_from: saved}\n"};
  ExpectRefused(rest, {"spec.checkpoint.resume_from: worker node-a: ",
                       "checkpoints/saved/step-00000002: tokenizer_hash: found ", "expected bbbb"});
  rest.data = absl::StrCat("{", both, ", allow_other_tokenizer: true}");
  RunJob(rest);
}

}  // namespace
}  // namespace stretto::integration
