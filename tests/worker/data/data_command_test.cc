// SPDX-License-Identifier: Apache-2.0

// `stretto data`, the program, as a user types it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/golden_messages.h"
#include "tests/same_document.h"
#include "tests/worker/data/tiny_model.h"
#include "tests/worker/test_files.h"

namespace stretto {
namespace {

using testing::HasSubstr;

struct Ran {
  int code;
  std::string output;  // stdout and stderr
};

Ran RunData(const std::string& arguments) {
  FILE* pipe = ::popen((STRETTO_BINARY_DIR "/stretto-data " + arguments + " 2>&1").c_str(), "r");
  Ran ran{-1, ""};
  char block[512];
  while (const size_t n = std::fread(block, 1, sizeof(block), pipe)) ran.output.append(block, n);
  ran.code = WEXITSTATUS(::pclose(pipe));
  return ran;
}

class DataCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/data_command_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    std::ofstream(dir_ + "/a.txt") << "hello";
    golden_.Hide(dir_, "FOLDER");
  }
  std::string Prepare(const std::string& more = "") {
    return "prepare " + dir_ + "/a.txt --output " + dir_ + "/set " + more;
  }
  GoldenMessages golden_{"stretto-data"};
  std::string dir_;
};

TEST_F(DataCommandTest, WritesADataSetAndRefusesToOverwriteIt) {
  const Ran first = RunData(Prepare());
  EXPECT_EQ(first.code, 0) << first.output;
  golden_.Add(first.output, {dir_ + "/set.bin: ", "6 tokens", "1 documents", "1 files"});
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/set.idx"));
  const Ran second = RunData(Prepare());
  EXPECT_EQ(second.code, 1);
  golden_.Add(second.output, {"error: ", dir_ + "/set.idx", "--overwrite"});
  EXPECT_EQ(RunData(Prepare("--overwrite")).code, 0);
}

TEST_F(DataCommandTest, SentencePieceModelTokenizes) {
  std::ofstream(dir_ + "/tiny.model", std::ios::binary) << TinyModel(true);
  const Ran ran = RunData(Prepare("--tokenizer sentencepiece:" + dir_ + "/tiny.model"));
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST_F(DataCommandTest, TokenizerOfAFolderFromHuggingFaceTokenizes) {
  std::filesystem::copy(STRETTO_SOURCE_DIR "/tests/golden/tokenizer/llama3_kind.json",
                        dir_ + "/tokenizer.json");
  std::ofstream(dir_ + "/tokenizer_config.json") << R"({"eos_token": "<|end_of_text|>"})";
  const Ran ran = RunData(Prepare("--tokenizer hf:" + dir_));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("vocabulary 484"));
  const Ran other = RunData(
      Prepare("--overwrite --tokenizer hf:" + dir_ + "/tokenizer.json --end-of-document '<|no|>'"));
  EXPECT_EQ(other.code, 1);
  golden_.Add(other.output, {"error: ", "end of document: found \"<|no|>\","});
  const Ran bytes = RunData(Prepare("--overwrite --end-of-document '<|end|>'"));
  golden_.Add(bytes.output, {"error: --end-of-document: ", "--tokenizer bytes"});
}

TEST_F(DataCommandTest, FailureSaysWhereTheDonePartsAre) {
  std::ofstream(dir_ + "/bad.jsonl") << "{\"text\": 1}\n";
  const Ran ran = RunData("prepare " + dir_ + "/bad.jsonl --output " + dir_ + "/set");
  EXPECT_EQ(ran.code, 1);
  golden_.Add(ran.output, {"bad.jsonl: found {\"text\": 1}", "byte 0", dir_ + "/set.parts"});
}

TEST_F(DataCommandTest, CompletionsAreMarkedAndTheirFlagsChecked) {
  std::ofstream(dir_ + "/chat.jsonl") << R"({"prompt": "ab", "completion": "c"})"
                                      << "\n";
  const std::string prepare = "prepare " + dir_ + "/chat.jsonl --output " + dir_ + "/set ";
  const Ran ran = RunData(prepare + "--completions");
  EXPECT_EQ(ran.code, 0) << ran.output;
  golden_.Add(ran.output, {"set.bin: 4 tokens", "set.mask.bin: 2 tokens", "50.0 %"});
  const Ran markers = RunData(prepare + "--completions --chat-format chatml --overwrite");
  EXPECT_EQ(markers.code, 1);
  golden_.Add(markers.output, {"error: --chat-format chatml: found 12 tokens", "<|im_start|>"});
  for (const char* flags : {"--completions --json-key body", "--chat-format chatml",
                            "--completions --chat-format alpaca"}) {
    const Ran refused = RunData(prepare + flags);
    EXPECT_EQ(refused.code, 2) << refused.output;
    golden_.Add(refused.output, {"--"});
  }
}

TEST_F(DataCommandTest, ShowsTheBatchOfAStep) {
  ASSERT_EQ(RunData(Prepare()).code, 0);
  const std::string batch =
      "batch " + dir_ + "/set --sequence-length 5 --sequences 1 --seed 1 --step 2 ";
  const Ran ran = RunData(batch);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(ran.output, "sample 1: " + dir_ + "/set at token 0: 104 101 108 108 111\n");
  const Ran weights = RunData(batch + "--weights 1,2");
  EXPECT_EQ(weights.code, 1);
  EXPECT_THAT(weights.output, HasSubstr("--weights: found 2, expected 1, one for each data set"));
  EXPECT_EQ(RunData(batch + "--step 0").code, 2);
  EXPECT_EQ(RunData("batch " + dir_ + "/set").code, 2);
}

TEST_F(DataCommandTest, JsonAndYamlAreOneDocument) {
  std::ofstream(dir_ + "/a.txt") << "null\n: \"- #\" 12";
  ASSERT_EQ(RunData(Prepare()).code, 0);
  for (const std::string& command :
       {"inspect " + dir_ + "/set",
        "batch " + dir_ + "/set --sequence-length 5 --sequences 2 --seed 1 --step 2"}) {
    ExpectSameDocument(RunData(command + " -o yaml").output, RunData(command + " -o json").output);
  }
}

TEST_F(DataCommandTest, RefusesUnknownTokenizerAndMissingArguments) {
  const Ran ran = RunData(Prepare("--tokenizer words"));
  EXPECT_EQ(ran.code, 1);
  golden_.Add(ran.output,
              {"error: --tokenizer: found \"words\",", "bytes", "sentencepiece:", "hf:"});
  const Ran no_output = RunData("prepare " + dir_ + "/a.txt");
  EXPECT_EQ(no_output.code, 2);
  golden_.Add(no_output.output, {"--output"});
  const Ran nothing = RunData("");
  EXPECT_EQ(nothing.code, 2);
  golden_.Add(nothing.output, {"subcommand"});
}

}  // namespace
}  // namespace stretto
