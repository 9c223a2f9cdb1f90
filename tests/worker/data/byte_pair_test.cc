// SPDX-License-Identifier: Apache-2.0

// Byte-level BPE from tokenizer.json. make_tokenizer_golden.py made the golden files by
// `tokenizers`.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden_messages.h"
#include "tests/worker/test_files.h"
#include "worker/data/text/byte_level.h"
#include "worker/data/text/pattern.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kGolden = STRETTO_SOURCE_DIR "/tests/golden/tokenizer/";

std::string Slurp(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Loads a tokenizer.json with these changes (a JSON merge patch) to the golden one.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadPatched(
    const json& patch, const std::string& golden = "llama3_kind",
    const std::string& end_of_document = "<|end_of_text|>") {
  TestFolder folder;
  json document = json::parse(Slurp(kGolden + golden + ".json"));
  document.merge_patch(patch);
  Spill(folder / "tokenizer.json", document.dump());
  return LoadBytePairTokenizer(folder / "tokenizer.json", end_of_document);
}

TEST(BytePairTest, TokensAreThoseOfTokenizers) {
  const json golden = json::parse(Slurp(kGolden + "cases.json"));
  ASSERT_GT(golden["cases"].size(), 50u);
  for (const std::string name : {"gpt2_kind", "llama3_kind"}) {
    const auto tokenizer = LoadBytePairTokenizer(
        kGolden + name + ".json", name == "gpt2_kind" ? "<|endoftext|>" : "<|end_of_text|>");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (const json& expected : golden["cases"]) {
      const std::string text = expected["text"];
      const auto tokens = (*tokenizer)->Encode(text);
      ASSERT_TRUE(tokens.ok()) << tokens.status();
      EXPECT_EQ(*tokens, expected[name].get<std::vector<int32_t>>()) << name << ": " << text;
      if (absl::c_linear_search(*tokens, (*tokenizer)->info().end_of_document)) continue;
      EXPECT_EQ(*(*tokenizer)->Decode(*tokens), text);
    }
  }
}

TEST(BytePairTest, TokensItDoesNotHaveAreRefused) {
  const auto tokenizer = LoadPatched(json::object());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Decode({480, 481}), "<|begin_of_text|>");
  for (const int32_t token : {-1, 484}) {
    EXPECT_EQ((*tokenizer)->Decode({token}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(BytePairTest, InfoNamesKindSizeAndEnd) {
  const auto tokenizer = LoadPatched(json::object());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->info().kind, "byte_pair");
  EXPECT_EQ((*tokenizer)->info().vocab_size, 484);
  EXPECT_EQ((*tokenizer)->info().end_of_document, 481);
  EXPECT_EQ((*tokenizer)->info().hash.size(), 64u);
}

// The end of document of llama3_kind.json, beside which `files` lie; or the error.
std::string EndBeside(const std::vector<std::pair<std::string, std::string>>& files) {
  TestFolder folder;
  Spill(folder / "tokenizer.json", Slurp(kGolden + "llama3_kind.json"));
  for (const auto& [name, text] : files) Spill(folder / name, text);
  const auto tokenizer = LoadBytePairTokenizer(folder / "tokenizer.json", "");
  if (!tokenizer.ok()) return std::string(tokenizer.status().message());
  return std::to_string((*tokenizer)->info().end_of_document);
}

TEST(BytePairTest, FilesBesideItSayWhatEndsADocument) {
  const std::pair<std::string, std::string> silent = {"tokenizer_config.json",
                                                      R"({"model_max_length": 1024})"};
  const std::string text = R"({"eos_token": "<|end_of_text|>"})";
  EXPECT_THAT(
      EndBeside({silent, {"config.json", R"({"eos_token_id": null})"}}),
      HasSubstr("found no eos_token in tokenizer_config.json or special_tokens_map.json and "
                "no eos_token_id in config.json or generation_config.json, expected "
                "--end-of-document with one of the added tokens: <|"));
  EXPECT_EQ(EndBeside({{"tokenizer_config.json", text}}), "481");
  EXPECT_EQ(
      EndBeside({{"tokenizer_config.json", R"({"eos_token": {"content": "<|end_of_text|>"}})"},
                 {"special_tokens_map.json", R"({"eos_token": "<|begin_of_text|>"})"}}),
      "481");
  EXPECT_EQ(
      EndBeside(
          {silent, {"special_tokens_map.json", text}, {"config.json", R"({"eos_token_id": 480})"}}),
      "481");
  EXPECT_EQ(EndBeside({silent, {"config.json", R"({"eos_token_id": 481})"}}), "481");
  EXPECT_EQ(EndBeside({{"config.json", R"({"eos_token_id": null})"},
                       {"generation_config.json", R"({"eos_token_id": [481, 480]})"}}),
            "481");
}

TEST(BytePairTest, FilesBesideItThatSayNoSuchTokenAreRefused) {
  EXPECT_THAT(EndBeside({{"tokenizer_config.json", R"({"eos_token": "</s>"})"}}),
              HasSubstr("end of document: found \"</s>\""));
  EXPECT_THAT(EndBeside({{"tokenizer_config.json", "["}}),
              HasSubstr("tokenizer_config.json: found no JSON object"));
  EXPECT_THAT(EndBeside({{"config.json", R"({"eos_token_id": 50256})"}}),
              HasSubstr("config.json: found eos_token_id 50256, expected an added token"));
}

// As in a checkpoint of the Hub's GPT-2: its tokenizer_config.json is silent, config.json
// elsewhere.
TEST(BytePairTest, Gpt2KnowsItsEndByItself) {
  TestFolder folder;
  Spill(folder / "tokenizer.json", Slurp(kGolden + "gpt2_kind.json"));
  Spill(folder / "tokenizer_config.json", R"({"model_max_length": 1024})");
  const auto tokenizer = LoadBytePairTokenizer(folder / "tokenizer.json", "");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->info().end_of_document, 0);
}

TEST(BytePairTest, PrefixSpaceIsAddedToEveryStretchOfText) {
  const auto tokenizer =
      LoadPatched({{"pre_tokenizer", {{"add_prefix_space", true}}}}, "gpt2_kind", "<|endoftext|>");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ(*(*tokenizer)->Encode("the"), *(*tokenizer)->Encode(" the"));
  EXPECT_EQ(*(*tokenizer)->Encode("a<|endoftext|>b"), *(*tokenizer)->Encode(" a<|endoftext|> b"));
}

TEST(BytePairTest, LongRunsTakeNoQuadraticTime) {
  const auto tokenizer = LoadPatched(json::object());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  // One word of a million letters: quadratic time would take hours.
  EXPECT_TRUE((*tokenizer)->Encode(std::string(1'000'000, 'a')).ok());
}

TEST(BytePairTest, TextThatIsNoUtf8IsRefusedWithItsPlace) {
  const auto tokenizer = LoadPatched(json::object());
  ASSERT_TRUE(tokenizer.ok());
  const auto tokens = (*tokenizer)->Encode("good\xff");
  EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokens.status().message()), HasSubstr("byte 4: found no UTF-8"));
}

struct Refusal {
  const char* name;
  const char* patch;
  const char* fact;  // of the message: the key, and what was found
};

class BytePairRefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(BytePairRefusalTest, NamesTheKeyFoundAndExpected) {
  const auto bad = LoadPatched(json::parse(GetParam().patch));
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument) << bad.status();
  std::string message(bad.status().message());
  const size_t file = message.find("tokenizer.json: ");
  ASSERT_NE(file, std::string::npos) << message;
  GoldenMessages("stretto-data").Add(message.substr(file), {GetParam().fact});
}

INSTANTIATE_TEST_SUITE_P(
    Keys, BytePairRefusalTest,
    testing::Values(
        Refusal{"Normalizer", R"({"normalizer": {"type": "NFC"}})",
                "key normalizer: found {\"type\":\"NFC\"}"},
        Refusal{"ModelType", R"({"model": {"type": "Unigram"}})",
                "key model.type: found \"Unigram\""},
        Refusal{"NoModel", R"({"model": null})", "key model.type: found null"},
        Refusal{"ByteFallback", R"({"model": {"byte_fallback": true}})", "tokenizer.model"},
        Refusal{"Dropout", R"({"model": {"dropout": 0.1}})", "key model.dropout: found 0.1"},
        Refusal{"NoVocab", R"({"model": {"vocab": null}})", "key model.vocab: found null"},
        Refusal{"VocabWithoutAByte", R"({"model": {"vocab": {"a": null}}})", "byte 0x61"},
        Refusal{"NegativeToken", R"({"model": {"vocab": {"a": -1}}})",
                "key model.vocab.a: found -1"},
        Refusal{"TokenOfALargeNumber", R"({"model": {"vocab": {"a": 1e30}}})",
                "key model.vocab.a: found 1e+30"},
        Refusal{"AddedTokenTooLarge", R"({"added_tokens": [{"content": "x", "id": 16777216}]})",
                "key added_tokens[0].id: found 16777216,"},
        Refusal{"MergeOfOnePiece", R"({"model": {"merges": ["ab"]}})",
                "key model.merges[0]: found \"ab\""},
        Refusal{"MergeOfAnUnknownPiece", R"({"model": {"merges": ["zz zz"]}})",
                "merges[0]: found piece \"zz\""},
        Refusal{"PieceOutsideTheAlphabet", R"({"model": {"merges": ["木 a"]}})",
                R"(piece "\xe6\x9c\xa8", byte 0)"},
        Refusal{"EmptyAddedToken", R"({"added_tokens": [{"content": ""}]})",
                "key added_tokens[0].content"},
        Refusal{"AddedTokenThatStrips",
                R"({"added_tokens": [{"content": "x", "id": 1, "lstrip": true}]})",
                "key added_tokens[0].lstrip: found true"},
        Refusal{"NoPreTokenizer", R"({"pre_tokenizer": null})", "key pre_tokenizer: found null"},
        Refusal{"PreTokenizerType", R"({"pre_tokenizer": {"type": "Whitespace"}})",
                "key pre_tokenizer.type: found \"Whitespace\""},
        Refusal{"NoPreTokenizers", R"({"pre_tokenizer": {"pretokenizers": []}})",
                "key pre_tokenizer.pretokenizers: found []"},
        Refusal{"ByteLevelWithoutExpression",
                R"({"pre_tokenizer": {"type": "ByteLevel", "use_regex": false}})",
                "key pre_tokenizer.use_regex: found false"}),
    [](const testing::TestParamInfo<Refusal>& info) { return info.param.name; });

TEST(BytePairTest, BadExpressionAndBadFileAreRefused) {
  json document = json::parse(Slurp(kGolden + "llama3_kind.json"));
  document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a";
  TestFolder folder;
  Spill(folder / "tokenizer.json", document.dump());
  const auto bad = LoadBytePairTokenizer(folder / "tokenizer.json", "<|end_of_text|>");
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("regular expression, character 2"));
  Spill(folder / "tokenizer.json", "{");
  EXPECT_THAT(std::string(LoadBytePairTokenizer(folder / "tokenizer.json", "x").status().message()),
              HasSubstr("found no JSON object"));
  EXPECT_EQ(LoadBytePairTokenizer(folder / "none", "x").status().code(),
            absl::StatusCode::kNotFound);
}

// As `tokenizers` takes an empty match: the text in front of it is a word of its own.
TEST(BytePairTest, EmptyMatchEndsTheWordInFrontOfIt) {
  json document = json::parse(Slurp(kGolden + "llama3_kind.json"));
  document["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(?=ß)|x+";
  TestFolder folder;
  Spill(folder / "tokenizer.json", document.dump());
  const auto tokenizer = LoadBytePairTokenizer(folder / "tokenizer.json", "<|end_of_text|>");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto whole = LoadPatched(json::object());
  const auto tokens = (*tokenizer)->Encode("größerxx");
  ASSERT_TRUE(tokens.ok());
  std::vector<int32_t> expected;
  for (const char* word : {"grö", "ßer", "xx"}) {
    const auto part = *(*whole)->Encode(word);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(*tokens, expected);
}

TEST(BytePairTest, ExpressionsThatMeanSomethingElseInPcreAreRefused) {
  json document = json::parse(Slurp(kGolden + "llama3_kind.json"));
  json& split = document["pre_tokenizer"]["pretokenizers"][0];
  json& byte_level = document["pre_tokenizer"]["pretokenizers"][1];
  TestFolder folder;
  for (const char* expression : {R"([\p{L}&&[^a]]+)", R"(\h+)"}) {
    split["pattern"]["Regex"] = expression;
    Spill(folder / "tokenizer.json", document.dump());
    EXPECT_THAT(
        std::string(LoadBytePairTokenizer(folder / "tokenizer.json", "<|end|>").status().message()),
        HasSubstr("it means something else in PCRE2"));
  }
  split["pattern"]["Regex"] = "x+";
  byte_level["add_prefix_space"] = true;
  Spill(folder / "tokenizer.json", document.dump());
  EXPECT_THAT(
      std::string(LoadBytePairTokenizer(folder / "tokenizer.json", "<|end|>").status().message()),
      HasSubstr("add_prefix_space: found true, expected false behind a Split"));
}

TEST(ByteLevelTest, AlphabetCoversEveryByteOnce) {
  EXPECT_EQ(*BytesOfPiece("Ġthe"), " the");
  EXPECT_EQ(*BytesOfPiece("Ċ"), "\n");
  EXPECT_EQ(*BytesOfPiece("Ń"), "\xad");
  EXPECT_EQ(*BytesOfPiece("é"), "\xe9");
  EXPECT_FALSE(BytesOfPiece("木").ok());
  EXPECT_FALSE(BytesOfPiece(" ").ok());
  EXPECT_FALSE(BytesOfPiece("\xc4").ok());
}

TEST(PatternTest, QuotedTextMatchesItself) {
  const std::string text = "<|a.b*c\\d|>é\n";
  const auto pattern = Pattern::Compile(Quoted(text));
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  const auto found = pattern->Find("x" + text + "y", 0);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->begin, 1u);
  EXPECT_EQ(found->end, 1 + text.size());
}

TEST(PatternTest, ExpressionThatBacktracksWithoutEndIsAnError) {
  const auto pattern = Pattern::Compile("(a+)+b|(a*)*c");
  ASSERT_TRUE(pattern.ok());
  EXPECT_EQ(pattern->Find(std::string(4000, 'a'), 0).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace stretto
