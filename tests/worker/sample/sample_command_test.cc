// SPDX-License-Identifier: Apache-2.0

// `stretto sample`, the program, as a user types it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/same_document.h"
#include "tests/worker/data/tiny_model.h"
#include "tests/worker/made_model.h"
#include "tests/worker/test_files.h"
#include "worker/checkpoint/manifest.h"
#include "worker/sample/decoder.h"
#include "worker/sample/utf8.h"

namespace stretto {
namespace {

using testing::HasSubstr;

constexpr char kProgram[] = STRETTO_BINARY_DIR "/stretto-model";
constexpr char kGolden[] = STRETTO_SOURCE_DIR "/tests/golden/models/";

struct Ran {
  int code;
  std::string output;
};

std::string ReadAll(int fd) {
  std::string all;
  char block[4096];
  // A terminal whose other side is gone reads as an error.
  for (ssize_t n = 0; (n = ::read(fd, block, sizeof block)) > 0;) {
    all.append(block, static_cast<size_t>(n));
  }
  ::close(fd);
  return all;
}

Ran RunSample(const std::string& arguments) {
  FILE* pipe = ::popen((std::string(kProgram) + " sample " + arguments).c_str(), "r");
  const std::string output = ReadAll(::dup(::fileno(pipe)));
  return {WEXITSTATUS(::pclose(pipe)), output};
}

// stderr as well.
Ran RunAll(const std::string& arguments) { return RunSample(arguments + " 2>&1"); }

int64_t FilesIn(const std::string& folder) {
  const std::filesystem::directory_iterator files(folder);
  return std::distance(begin(files), end(files));
}

// A vocabulary of the bytes' tokenizer.
ModelSpec ByteModel() {
  ModelSpec model = TinyLlama();
  model.vocab_size = 257;
  return model;
}

std::string WriteByteCheckpoint(const std::string& job, const ModelSpec& model) {
  return WriteMadeCheckpoint(job, DrawnModel(model), {.ranks = 1, .tokenizer = "bytes"});
}

class SampleCommandTest : public testing::Test {
 protected:
  SampleCommandTest() : checkpoint_(WriteByteCheckpoint(folder_ / "job", ByteModel())) {}

  const TestFolder folder_;
  const std::string checkpoint_;
};

TEST_F(SampleCommandTest, SameSeedWritesTheSameText) {
  const Ran first = RunSample(checkpoint_ + " --prompt hello --tokens 40 --seed 1");
  EXPECT_EQ(first.code, 0);
  EXPECT_FALSE(first.output.empty());
  EXPECT_EQ(RunSample(checkpoint_ + " --prompt hello --tokens 40 --seed 1").output, first.output);
  EXPECT_NE(RunSample(checkpoint_ + " --prompt hello --tokens 40 --seed 2").output, first.output);
  // A job's folder means its newest checkpoint.
  EXPECT_EQ(RunSample(folder_ / "job --prompt hello --tokens 40 --seed 1").output, first.output);
}

// Trainers name the root: a job may put a link where its checkpoint was.
TEST_F(SampleCommandTest, LinksOfAModelDoNotLeaveTheRootThatATrainerNames) {
  namespace fs = std::filesystem;
  const std::string root = folder_ / "root", rest = " --prompt hello --tokens 4 --root " + root;
  fs::create_directories(root);
  fs::rename(checkpoint_, root + "/step");
  const Ran plain = RunAll(root + "/step" + rest);
  EXPECT_EQ(plain.code, 0) << plain.output;
  fs::create_symlink("step", root + "/inside");
  EXPECT_EQ(RunAll(root + "/inside" + rest).output, plain.output);
  // A file of the model, and its folder.
  const std::string file = "/" + std::string(kManifestName);
  fs::rename(root + "/step" + file, folder_ / "elsewhere");
  fs::create_symlink("../../elsewhere", root + "/step" + file);
  const auto expect_refused = [&] {
    const Ran ran = RunAll(root + "/step" + rest);
    EXPECT_EQ(ran.code, 1);
    EXPECT_THAT(ran.output, HasSubstr("open " + root + "/step/"));
    EXPECT_THAT(ran.output, HasSubstr("found a symbolic link that leads out of " + root));
  };
  expect_refused();
  EXPECT_EQ(RunAll(root + "/step --prompt hello --tokens 4").output, plain.output)
      << "whoever names a model may have links in it";
  fs::rename(folder_ / "elsewhere", root + "/step" + file);
  fs::rename(root + "/step", folder_ / "elsewhere");
  fs::create_symlink("../elsewhere", root + "/step");
  expect_refused();
}

TEST_F(SampleCommandTest, OutputIsUtf8WhateverTheModelWrites) {
  const Ran ran = RunSample(checkpoint_ + " --prompt hello --tokens 280 --temperature 5 --top-p 1");
  std::string bytes = ran.output;
  EXPECT_EQ(TakeUtf8(&bytes, true), ran.output);
  EXPECT_THAT(ran.output, HasSubstr(kReplacement));
}

TEST_F(SampleCommandTest, PromptComesFromTextFileOrStandardInput) {
  const std::string arguments = checkpoint_ + " --tokens 20 --temperature 0 ";
  const Ran text = RunSample(arguments + "--prompt 'Once upon'");
  Spill(folder_ / "prompt", "Once upon");
  EXPECT_EQ(RunSample(arguments + "--prompt-file " + (folder_ / "prompt")).output, text.output);
  EXPECT_EQ(RunSample(arguments + "--prompt-file - < " + (folder_ / "prompt")).output, text.output);
  EXPECT_NE(RunSample(arguments).output, text.output);  // a document's beginning
}

TEST_F(SampleCommandTest, JsonAndYamlAreOneDocument) {
  const std::string sample = checkpoint_ + " --prompt 'a: \"b\" #' --tokens 30 --seed 5 -o ";
  ExpectSameDocument(RunSample(sample + "yaml").output, RunSample(sample + "json").output);
}

TEST_F(SampleCommandTest, JsonTellsTokensTextAndWhyItEnded) {
  const Ran ran = RunSample(checkpoint_ + " --prompt hi --tokens 30 --seed 5 -o json");
  const auto json = nlohmann::json::parse(ran.output);
  EXPECT_EQ(json["model"], checkpoint_);
  EXPECT_EQ(json["prompt_tokens"], (std::vector<int>{'h', 'i'}));
  EXPECT_EQ(json["tokens"].size(), 30u);
  EXPECT_EQ(json["text"], RunSample(checkpoint_ + " --prompt hi --tokens 30 --seed 5").output);
  EXPECT_EQ(json["ending"], "tokens");
  const auto whole = nlohmann::json::parse(
      RunSample(checkpoint_ + " --prompt-ids 1,2 --tokens 1000 -o json").output);
  EXPECT_EQ(whole["tokens"].size(), 299u);  // the last follows on the last position
  EXPECT_EQ(whole["ending"], "sequence_length");
}

TEST_F(SampleCommandTest, TextEndsWithTheDocument) {
  // One token of 257 ends it; this model's temperature makes all of them likely.
  for (int seed = 0; seed < 20; ++seed) {
    const auto json = nlohmann::json::parse(
        RunSample(checkpoint_ + " --tokens 290 --temperature 50 --top-p 1 -o json --seed " +
                  std::to_string(seed))
            .output);
    EXPECT_THAT(json["tokens"].get<std::vector<int>>(), testing::Each(testing::Lt(256)));
    if (json["tokens"].size() == 290) continue;
    EXPECT_EQ(json["ending"], "end_of_document");
    return;
  }
  FAIL() << "no text ended";
}

TEST_F(SampleCommandTest, TokensAnswerTokens) {
  const Ran numbers = RunSample(checkpoint_ + " --prompt-ids 104,105 --tokens 5 --seed 5");
  const auto json = nlohmann::json::parse(
      RunSample(checkpoint_ + " --prompt hi --tokens 5 --seed 5 -o json").output);
  std::string expected;
  for (const int token : json["tokens"]) expected += std::to_string(token) + "\n";
  EXPECT_EQ(numbers.output, expected);
  // Without a tokenizer, and in front of the model.
  EXPECT_EQ(RunAll(std::string("--prompt-ids 1,2 hf:") + kGolden + "llama3 --tokens 3").code, 0);
}

TEST_F(SampleCommandTest, LogitsAreThoseOfTheDecoder) {
  std::string ids;
  const std::vector<int32_t> tokens = DrawnTokens(70, ByteModel());
  for (const int32_t token : tokens) ids += (ids.empty() ? "" : ",") + std::to_string(token);
  const Ran ran =
      RunAll(checkpoint_ + " --tokens 0 --logits " + (folder_ / "logits") + " --prompt-ids " + ids);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_EQ(ran.output, "");
  std::vector<float> expected(tokens.size() * 257), found(expected.size());
  ASSERT_TRUE(
      (*Decoder::Load(DrawnModel(ByteModel())))->Append(tokens, absl::MakeSpan(expected)).ok());
  const std::string bytes = Slurp(folder_ / "logits");
  ASSERT_EQ(bytes.size(), expected.size() * sizeof(float));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
}

TEST_F(SampleCommandTest, LogitsThatFailLeaveWhatWasThere) {
  std::filesystem::create_directory(folder_ / "out");
  Spill(folder_ / "out/logits", "of before");
  // A token of no vocabulary fails in the second piece.
  std::string ids = "1";
  for (int i = 0; i < 40; ++i) ids += ",1";
  const std::string logits = " --logits " + (folder_ / "out/logits");
  EXPECT_EQ(RunAll(checkpoint_ + logits + " --prompt-ids " + ids + ",257").code, 1);
  EXPECT_EQ(Slurp(folder_ / "out/logits"), "of before");
  EXPECT_EQ(FilesIn(folder_ / "out"), 1);
  EXPECT_EQ(RunAll(checkpoint_ + logits + " --tokens 0 --prompt-ids " + ids).code, 0);
  EXPECT_EQ(Slurp(folder_ / "out/logits").size(), 41u * 257 * sizeof(float));
  EXPECT_EQ(FilesIn(folder_ / "out"), 1);
}

// The loaded model would speak of the token first.
TEST_F(SampleCommandTest, PromptThatIsTooLongIsRefusedBeforeTheModelIsLoaded) {
  std::string ids = "257";
  for (int i = 0; i < 300; ++i) ids += ",1";
  EXPECT_THAT(RunAll(checkpoint_ + " --prompt-ids " + ids).output,
              HasSubstr("found 301 tokens, expected at most 300, its sequence length"));
}

TEST_F(SampleCommandTest, StatisticsGoToStandardError) {
  EXPECT_THAT(RunSample(checkpoint_ + " --prompt hi --tokens 5 --stats 2>&1 >/dev/null").output,
              testing::MatchesRegex("prompt: 2 tokens in .* \\(.* per second\\); then 4 tokens in "
                                    ".* on [0-9]+ threads; ended by tokens\n"));
  EXPECT_EQ(RunSample(checkpoint_ + " --prompt hi --tokens 5 2>&1 >/dev/null").output, "");
}

TEST_F(SampleCommandTest, SaysWhatIsWrong) {
  const auto expect = [](const std::string& arguments, int code, const std::string& message) {
    const Ran ran = RunAll(arguments);
    EXPECT_EQ(ran.code, code) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(message));
  };
  const std::string hf = std::string("hf:") + kGolden;
  expect(hf + "llama3 --prompt x", 1,
         "llama3: found no tokenizer.json or tokenizer.model, expected one; --tokenizer names");
  expect(hf + "gpt2_bare --tokenizer bytes --prompt x", 1,
         "tokenizer: found 257 tokens, expected at most the 97 of the vocabulary of hf:");
  expect(hf + "gpt2_bare --prompt-ids 1,97", 1, "found token 97, expected one in [0, 97)");
  expect(hf + "gpt2_bare --prompt-ids 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 1,
         "found 17 tokens, expected at most 16, its sequence length");
  expect(std::string(kGolden) + "llama3 --prompt x", 1, "a Hugging Face model is named hf:");
  expect("hf:" + (folder_ / "nothing") + " --prompt x", 1, "No such file or directory");
  expect(checkpoint_ + " --prompt x --temperature=-1", 1, "temperature: found -1, expected");
  expect(checkpoint_ + " --prompt x --top-p 0", 1, "top-p: found 0, expected");
  expect(checkpoint_ + " --prompt-file " + (folder_ / "nothing"), 1, "nothing: No such file");
  expect(checkpoint_ + " --prompt x --logits " + (folder_ / "no/folder"), 1, "open ");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect(checkpoint_ + " --prompt x --logits " + (folder_ / "pipe"), 1,
         "pipe, which is no regular file");
  expect(checkpoint_ + " --prompt x --end-of-document '<|end|>'", 1,
         "--end-of-document: found it with --tokenizer bytes, expected it with hf:... alone");
  expect(checkpoint_ + " --prompt-ids 1 --end-of-document '<|end|>'", 1,
         "--end-of-document: found it with --prompt-ids and no --tokenizer");
  expect(checkpoint_ + " --prompt x --prompt-ids 1", 2, "excludes");
  expect(checkpoint_ + " --prompt x --tokens=-1", 2, "--tokens");
  expect("--prompt x", 2, "MODEL is required");
}

TEST_F(SampleCommandTest, FullDiskIsAnError) {
  const Ran ran = RunSample(checkpoint_ + " --prompt-ids 1 2>&1 >/dev/full");
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.output, HasSubstr("standard output: No space left"));
}

TEST_F(SampleCommandTest, TokenizerOfTheModelsFilesIsFound) {
  // A tokenizer of 484 tokens beside a model of 300.
  std::filesystem::copy(std::string(kGolden) + "gpt2_sharded", folder_ / "hf");
  std::filesystem::copy(STRETTO_SOURCE_DIR "/tests/golden/tokenizer/llama3_kind.json",
                        folder_ / "hf/tokenizer.json");
  Spill(folder_ / "hf/tokenizer_config.json", R"({"eos_token": "<|end_of_text|>"})");
  EXPECT_THAT(RunAll("hf:" + (folder_ / "hf") + " --prompt hi").output,
              HasSubstr("found 484 tokens, expected at most the 300"));
  EXPECT_EQ(RunAll("hf:" + (folder_ / "hf") + " --tokenizer bytes --prompt hi").code, 0);
}

TEST_F(SampleCommandTest, TokenizerModelStandsInForARefusedTokenizerJson) {
  const std::string tokenizers = STRETTO_SOURCE_DIR "/tests/golden/tokenizer/";
  std::filesystem::copy(std::string(kGolden) + "gpt2_sharded", folder_ / "hf");
  Spill(folder_ / "hf/tokenizer.model", TinyModel(true));
  const auto prompt = [&] {
    return RunAll("hf:" + (folder_ / "hf") + " --prompt ab --tokens 1 -o json").output;
  };
  EXPECT_THAT(prompt(), HasSubstr(R"("prompt_tokens": [3, 6])"));
  Spill(folder_ / "hf/tokenizer.json", R"({"model": {"type": "BPE", "byte_fallback": true}})");
  EXPECT_THAT(prompt(), HasSubstr(R"("prompt_tokens": [3, 6])"));
  EXPECT_THAT(RunAll("hf:" + (folder_ / "hf") + " --prompt x --end-of-document x").output,
              HasSubstr("--end-of-document: found it with --tokenizer sentencepiece:"));
  // One that is understood comes first, as with `stretto data prepare`.
  Spill(folder_ / "hf/tokenizer_config.json", R"({"eos_token": "<|end_of_text|>"})");
  Spill(folder_ / "hf/tokenizer.json", Slurp(tokenizers + "llama3_kind.json"));
  EXPECT_THAT(prompt(), HasSubstr("found 484 tokens, expected at most the 300"));
}

TEST_F(SampleCommandTest, TerminalSeesNoControlCharacters) {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::execl(kProgram, kProgram, "sample", checkpoint_.c_str(), "--prompt", "hi", "--tokens", "280",
            "--temperature", "9", "--top-p", "1", nullptr);
    ::_exit(127);
  }
  const std::string output = ReadAll(terminal);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << output;
  EXPECT_GT(std::count(output.begin(), output.end(), '?'), 5);
  for (const char c : output) EXPECT_TRUE(c < 0 || c >= ' ' || strchr("\r\n\t", c)) << int{c};
  EXPECT_THAT(output, HasSubstr("\nprompt: 2 tokens in "));  // statistics on a line of their own
}

TEST_F(SampleCommandTest, InterruptEndsItWithWhatWasWritten) {
  // A text that would take minutes.
  const ModelSpec large = {.architecture = ArchitectureOf(Family::kLlama),
                           .layers = 4,
                           .hidden = 256,
                           .heads = 4,
                           .ffn_hidden = 1024,
                           .sequence_length = 100'000,
                           .vocab_size = 257};
  const std::string folder = WriteByteCheckpoint(folder_ / "large", large);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl(kProgram, kProgram, "sample", folder.c_str(), "--prompt-ids", "1", "--tokens", "99999",
            nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  char first = 0;
  ASSERT_EQ(::read(ends[0], &first, 1), 1);
  ASSERT_EQ(::kill(child, SIGINT), 0);
  const std::string rest = ReadAll(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
  // Whole numbers, far from all of them.
  EXPECT_TRUE(rest.empty() || rest.back() == '\n') << rest;
  EXPECT_LT(std::count(rest.begin(), rest.end(), '\n'), 50'000);
}

}  // namespace
}  // namespace stretto
