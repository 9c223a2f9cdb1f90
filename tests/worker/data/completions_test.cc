// SPDX-License-Identifier: Apache-2.0

// Data of which only parts are trained on: from lines of JSON to the targets of samples.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/mask.h"
#include "worker/data/text/conversation.h"
#include "worker/data/text/inspect.h"
#include "worker/data/text/prepare.h"
#include "worker/data/training_data.h"

namespace stretto {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Segment> Of(const char* line, const char* format = "plain") {
  const auto segments = SegmentsOf(nlohmann::json::parse(line), *FindChatFormat(format));
  EXPECT_TRUE(segments.ok()) << segments.status();
  return segments.ok() ? *segments : std::vector<Segment>();
}

TEST(ConversationTest, ACompletionIsTrainedOnAndItsPromptIsNot) {
  EXPECT_THAT(Of(R"({"prompt": "2+2=", "completion": "4"})"),
              ElementsAre(Segment{"2+2=", false}, Segment{"4", true}));
  EXPECT_THAT(Of(R"({"prompt": "", "completion": "4", "id": 7})"), ElementsAre(Segment{"4", true}));
}

// Neighbours of a kind are one text, so that its tokens are those of the whole.
TEST(ConversationTest, WhatTheAssistantSaysIsTrainedOnWithItsEnd) {
  const char* line = R"({"messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": ""}]})";
  EXPECT_THAT(Of(line), ElementsAre(Segment{"system:\nBe brief.\n\nuser:\nHi\n\nassistant:\n"},
                                    Segment{"Hello\n\n", true},
                                    Segment{"user:\nBye\n\nassistant:\n"}, Segment{"\n\n", true}));
  EXPECT_THAT(Of(line, "chatml")[1], (Segment{"Hello<|im_end|>\n", true}));
  EXPECT_EQ(Of(line, "llama3")[0].text,
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ConversationTest, WhatIsNeitherIsRefusedWithWhatWasFound) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> refused = {
      {"[1]", {"found [1], expected an object with \"messages\", or \"prompt\""}},
      {R"({"text": "x"})", {"found {\"text\":\"x\"}, expected an object with \"messages\""}},
      {R"({"messages": [], "prompt": ""})", {"found both, expected"}},
      {R"({"completion": "x"})", {"prompt: found none, expected text"}},
      {R"({"prompt": "x", "completion": 3})", {"completion: found 3, expected text"}},
      {R"({"prompt": "x", "completion": ""})", {"completion: found nothing, expected text to"}},
      {R"({"messages": []})", {"messages: found [], expected a list"}},
      {R"({"messages": {}})", {"messages: found {}, expected a list"}},
      {R"({"messages": ["hi"]})", {"messages[0]: found \"hi\", expected an object"}},
      {R"({"messages": [{"role": "user"}]})", {"messages[0].content: found none, expected text"}},
      {R"({"messages": [{"role": "", "content": ""}]})", {"messages[0].role: found nothing"}},
      {R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})",
       {"messages[0].content: found [{\"type\":\"text\"}], expected text"}},
      {R"({"messages": [{"role": "user", "content": "x"}]})",
       {"messages: found none of role assistant, expected one to train on"}},
  };
  for (const auto& [line, facts] : refused) {
    const auto segments = SegmentsOf(nlohmann::json::parse(line), *FindChatFormat("plain"));
    EXPECT_EQ(segments.status().code(), absl::StatusCode::kInvalidArgument) << line;
    for (const std::string& fact : facts)
      EXPECT_THAT(std::string(segments.status().message()), HasSubstr(fact));
  }
}

class CompletionsTest : public testing::Test {
 protected:
  CompletionsTest() {
    Spill(folder_ / "a.jsonl",
          "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n"
          "\n{\"prompt\": \"\", \"completion\": \"e\"}\n");
  }

  absl::StatusOr<PrepareSummary> Make(const std::string& input = "a.jsonl", int threads = 1) {
    PrepareOptions options{{folder_ / input}, prefix_, true};
    options.lines.chat = FindChatFormat("plain");
    options.threads = threads;
    options.sizes = sizes_;
    return Prepare(options, *MakeByteTokenizer());
  }
  std::vector<int32_t> Values(const std::string& prefix, int32_t limit) {
    const auto dataset = IndexedDataset::Open(prefix);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    std::vector<int32_t> values(static_cast<size_t>(dataset->token_count()));
    EXPECT_TRUE(dataset->Read(0, limit, values).ok());
    return values;
  }
  DataConfig Config() {
    return {.root = folder_.path(),
            .parts = {{"set"}},
            .held_out = 0,
            .sequence_length = 3,
            .seed = 1,
            .vocab_size = 257,
            .shuffle = false};
  }

  TestFolder folder_;
  const std::string prefix_ = folder_ / "set";
  PieceSizes sizes_;
};

TEST_F(CompletionsTest, TheMaskHasAValueForEachToken) {
  const auto summary = Make();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->tokens, 7);
  EXPECT_EQ(summary->trained_tokens, 5);
  EXPECT_THAT(Values(prefix_, 257), ElementsAre('a', 'b', 'c', 'd', 256, 'e', 256));
  EXPECT_THAT(Values(MaskPrefix(prefix_), 2), ElementsAre(0, 0, 1, 1, 1, 1, 1));
  EXPECT_TRUE(ReadDataNote(prefix_)->masked);
  EXPECT_FALSE(std::filesystem::exists(prefix_ + ".parts"));
}

TEST_F(CompletionsTest, PiecesAndThreadsChangeNothing) {
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += "{\"prompt\": \"" + std::string(static_cast<size_t>(i % 7), 'p') +
             "\", \"completion\": \"" + std::string(static_cast<size_t>(1 + i % 5), 'c') + "\"}\n";
  }
  Spill(folder_ / "b.jsonl", lines);
  ASSERT_TRUE(Make("b.jsonl").ok());
  const auto tokens = Values(prefix_, 257), mask = Values(MaskPrefix(prefix_), 2);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(mask[i], tokens[i] == 'p' ? 0 : 1) << i;
  sizes_ = {.piece = 64, .part = 128};
  ASSERT_TRUE(Make("b.jsonl", 3).ok());
  EXPECT_EQ(Values(prefix_, 257), tokens);
  EXPECT_EQ(Values(MaskPrefix(prefix_), 2), mask);
}

TEST_F(CompletionsTest, TargetsThatAreNotTrainedOnAreMasked) {
  ASSERT_TRUE(Make().ok());
  const auto data = TrainingData::Open(Config());
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> tokens(6), targets(6);
  ASSERT_TRUE(data->train().ReadBatch(0, 2, tokens.data(), targets.data()).ok());
  EXPECT_THAT(tokens, ElementsAre('a', 'b', 'c', 'd', 256, 'e'));
  EXPECT_THAT(targets, ElementsAre(kMaskedTarget, 'c', 'd', 256, 'e', 256));
  EXPECT_EQ(*data->train().CountTargets(0, 1), 2);
  EXPECT_EQ(*data->train().CountTargets(0, 2), 5);
  EXPECT_EQ(*data->train().CountTargets(1, 2), 5);  // and the first sample of the next epoch
}

TEST_F(CompletionsTest, ABlendMasksThePartThatHasAMask) {
  ASSERT_TRUE(Make().ok());
  Spill(folder_ / "plain.txt", "wxyz");
  ASSERT_TRUE(Prepare({{folder_ / "plain.txt"}, folder_ / "plain"}, *MakeByteTokenizer()).ok());
  DataConfig config = Config();
  config.parts = {{"set"}, {"plain"}};
  const auto data = TrainingData::Open(config);
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<int32_t> targets(6);
  ASSERT_TRUE(data->train().ReadBatch(0, 2, nullptr, targets.data()).ok());
  EXPECT_EQ(std::count(targets.begin(), targets.end(), kMaskedTarget), 1);
  EXPECT_EQ(*data->train().CountTargets(0, 2), 5);
}

TEST_F(CompletionsTest, AMaskThatIsLostOrOfOtherTokensIsNamed) {
  ASSERT_TRUE(Make().ok());
  std::filesystem::rename(prefix_ + ".mask.idx", folder_ / "kept");
  absl::Status status = TrainingData::Open(Config()).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("set.mask.idx"), HasSubstr("set.tokenizer.json says")));
  auto writer = IndexedDatasetWriter::Create(MaskPrefix(prefix_), TokenType::kU8, true);
  ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{1, 0}).ok() && writer->Finish().ok());
  status = TrainingData::Open(Config()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("set.mask: found 2 values, expected 7"));
}

TEST_F(CompletionsTest, NewTokensNeverMeetAnOldMask) {
  ASSERT_TRUE(Make().ok());
  Spill(folder_ / "plain.txt", "wxyzabc");
  ASSERT_TRUE(Prepare({{folder_ / "plain.txt"}, prefix_, true}, *MakeByteTokenizer()).ok());
  EXPECT_FALSE(std::filesystem::exists(prefix_ + ".mask.idx"));
  EXPECT_FALSE(std::filesystem::exists(prefix_ + ".mask.bin"));
  EXPECT_FALSE(ReadDataNote(prefix_)->masked);
  EXPECT_EQ(*TrainingData::Open(Config())->train().CountTargets(0, 1), 3);
}

TEST_F(CompletionsTest, APartWithoutItsMaskIsMadeAgain) {
  Spill(folder_ / "b.jsonl",
        "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n{\"prompt\": 1, \"completion\": \"\"}\n");
  sizes_ = {.piece = 8, .part = 8};
  EXPECT_FALSE(Make("b.jsonl").ok());
  ASSERT_TRUE(std::filesystem::exists(prefix_ + ".parts/000000.mask.idx"));
  std::filesystem::remove(prefix_ + ".parts/000000.mask.idx");
  EXPECT_FALSE(Make("b.jsonl").ok());
  EXPECT_TRUE(std::filesystem::exists(prefix_ + ".parts/000000.mask.idx"));
}

TEST_F(CompletionsTest, InspectShowsWhatIsTrainedOn) {
  ASSERT_TRUE(Make().ok());
  const auto tokenizer = MakeByteTokenizer();
  const auto text = InspectDataset({.name = prefix_, .tokenizer = tokenizer.get()});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, AllOf(HasSubstr("\n5 tokens are trained on (PREFIX.mask)\n"),
                           HasSubstr("\n  trained on \"cd\"\n")));
}

TEST_F(CompletionsTest, WhatCannotBeMaskedIsRefused) {
  const auto message = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  Spill(folder_ / "a.txt", "text");
  EXPECT_THAT(message(Make("a.txt").status()),
              HasSubstr("a.txt: found a text file, expected *.jsonl or *.ndjson"));
  Spill(folder_ / "b.jsonl", "{\"prompt\": \"\", \"completion\": \"e\"}\n{\"text\": \"x\"}\n");
  EXPECT_THAT(message(Make("b.jsonl").status()),
              HasSubstr("b.jsonl: line at byte 34: found {\"text\":\"x\"}, expected"));
  Spill(folder_ / "b.jsonl", "{\"prompt\": ");
  EXPECT_THAT(message(Make("b.jsonl").status()),
              HasSubstr("b.jsonl: line at byte 0: found {\"prompt\": , expected a line of JSON"));
  PrepareOptions options{{folder_ / "a.jsonl"}, prefix_, true};
  options.lines.chat = FindChatFormat("chatml");
  EXPECT_THAT(message(Prepare(options, *MakeByteTokenizer()).status()),
              HasSubstr("--chat-format chatml: found 12 tokens for <|im_start|>, expected"));
  options.lines.chat = nullptr;
  EXPECT_THAT(message(Prepare(options, *MakeByteTokenizer()).status()),
              HasSubstr("as \"text\"; --completions takes messages, and prompts"));
}

}  // namespace
}  // namespace stretto
