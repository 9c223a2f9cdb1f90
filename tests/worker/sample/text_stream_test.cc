// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/text_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/worker/data/tiny_model.h"
#include "tests/worker/test_files.h"
#include "worker/data/text/pattern.h"
#include "worker/sample/utf8.h"

namespace stretto {
namespace {

// What every token adds, and what Finish does.
std::vector<std::string> Parts(const Tokenizer& tokenizer, const std::vector<int32_t>& before,
                               const std::vector<int32_t>& tokens) {
  TextStream stream(tokenizer, before);
  std::vector<std::string> parts;
  for (const int32_t token : tokens) parts.push_back(stream.Add(token).value());
  parts.push_back(stream.Finish().value());
  for (const std::string& part : parts) EXPECT_TRUE(CheckUtf8(part).ok());
  return parts;
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

TEST(TextStreamTest, CharacterOfSeveralTokensComesWithItsLast) {
  const auto bytes = MakeByteTokenizer();
  EXPECT_EQ(Parts(*bytes, {}, {'a', 0xE2, 0x82, 0xAC, 'b'}),
            (std::vector<std::string>{"a", "", "", "\xE2\x82\xAC", "b", ""}));
}

TEST(TextStreamTest, CharacterThatNeverEndsIsReplaced) {
  const auto bytes = MakeByteTokenizer();
  EXPECT_EQ(Parts(*bytes, {}, {0xE2, 0x82, 'b', 0xF0}),
            (std::vector<std::string>{"", "", std::string(kReplacement) + "b", "", kReplacement}));
}

// The prompt ends in the middle of a character of the tokenizer's.
TEST(TextStreamTest, PromptIsNotPartOfTheText) {
  const auto bytes = MakeByteTokenizer();
  EXPECT_EQ(Joined(Parts(*bytes, {'o', 'n', 'c', 'e', ' ', 'u'}, {'p', 'o', 'n'})), "pon");
}

TEST(TextStreamTest, BytePairsComeAsTheirWhole) {
  std::ifstream file(STRETTO_SOURCE_DIR "/tests/golden/tokenizer/cases.json");
  const auto cases = nlohmann::json::parse(file)["cases"];
  ASSERT_GT(cases.size(), 10u);
  for (const auto& [kind, end] :
       {std::pair{"gpt2_kind", "<|endoftext|>"}, std::pair{"llama3_kind", "<|end_of_text|>"}}) {
    const auto tokenizer = LoadBytePairTokenizer(
        std::string(STRETTO_SOURCE_DIR "/tests/golden/tokenizer/") + kind + ".json", end);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const auto& one : cases) {
      const auto tokens = one[kind].get<std::vector<int32_t>>();
      EXPECT_EQ(Joined(Parts(**tokenizer, {}, tokens)), (*tokenizer)->Decode(tokens).value());
      // The same after a prompt that ends anywhere.
      EXPECT_EQ(Joined(Parts(**tokenizer, {65, 66, 67, 68, 69}, tokens)),
                (*tokenizer)->Decode(tokens).value());
    }
  }
}

// TinyModel with a piece for every byte: token 7 + byte.
std::unique_ptr<Tokenizer> SentencePieceWithBytes(const TestFolder& folder) {
  std::string model = TinyModel(true);
  const std::string trainer = ProtoBytes(2, ProtoVarint(3, 1));
  const size_t at = model.find(trainer);
  EXPECT_NE(at, std::string::npos);
  std::string pieces;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    pieces += Piece(name, 0, 6);
  }
  // byte_fallback = 35 of the trainer's spec.
  model.replace(at, trainer.size(),
                pieces + ProtoBytes(2, ProtoVarint(3, 1) + "\x98\x02" + '\x01'));
  Spill(folder / "tiny.model", model);
  auto tokenizer = LoadSentencePieceTokenizer(folder / "tiny.model");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(TextStreamTest, SentencePieceKeepsTheSpacesBetweenItsTokens) {
  const TestFolder folder;
  const auto tokenizer = SentencePieceWithBytes(folder);
  EXPECT_EQ(Parts(*tokenizer, {}, {3, 6, 3, 6}),
            (std::vector<std::string>{"", "ab", " ", "ab", ""}));
  // What follows on a prompt does not begin a text: its space stays.
  EXPECT_EQ(Joined(Parts(*tokenizer, {3, 6}, {3, 6})), " ab");
}

TEST(TextStreamTest, SentencePieceBytesComeAsCharacters) {
  const TestFolder folder;
  const auto tokenizer = SentencePieceWithBytes(folder);
  EXPECT_EQ(Parts(*tokenizer, {3, 6}, {6, 7 + 0xE2, 7 + 0x82, 7 + 0xAC, 6}),
            (std::vector<std::string>{"ab", "", "", "\xE2\x82\xAC", "ab", ""}));
  const std::string r = kReplacement;
  EXPECT_EQ(Joined(Parts(*tokenizer, {3, 6}, {7 + 0xE2, 6})), r + "ab");
  EXPECT_EQ(Joined(Parts(*tokenizer, {3, 6}, {6, 7 + 0xE2, 7 + 0x82})), "ab" + r + r);
}

// Every sequence of a few kinds of tokens: control (1), space (3), text, bytes of a character.
TEST(TextStreamTest, SentencePieceComesAsTheWholeDoes) {
  const TestFolder folder;
  const auto tokenizer = SentencePieceWithBytes(folder);
  const std::vector<int32_t> kinds = {1, 3, 6, 7 + 0xE2, 7 + 0x82, 7 + 0xAC};
  constexpr int kLength = 6;
  for (int number = 0; number < std::pow(kinds.size(), kLength); ++number) {
    std::vector<int32_t> tokens;
    for (int rest = number; tokens.size() < kLength; rest /= static_cast<int>(kinds.size())) {
      tokens.push_back(kinds[static_cast<size_t>(rest) % kinds.size()]);
    }
    TextStream stream(*tokenizer, {});
    std::string text;
    for (const int32_t token : tokens) text += *stream.Add(token);
    ASSERT_EQ(text + *stream.Finish(), *tokenizer->Decode(tokens))
        << testing::PrintToString(tokens);
  }
}

TEST(TextStreamTest, SentencePieceKeepsASpaceBehindTokensThatShowNothing) {
  const TestFolder folder;
  const auto tokenizer = SentencePieceWithBytes(folder);
  EXPECT_EQ(Joined(Parts(*tokenizer, {3, 6, 1, 1, 1, 1, 1}, {3, 6})), " ab");
  EXPECT_EQ(Joined(Parts(*tokenizer, {}, {3, 6, 1, 1, 1, 1, 1, 3, 6})), "ab ab");
}

TEST(TextStreamTest, TokenOfNoTokenizerIsAnError) {
  const auto bytes = MakeByteTokenizer();
  TextStream stream(*bytes, {});
  EXPECT_EQ(stream.Add(257).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stretto
