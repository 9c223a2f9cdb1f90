// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/model_note.h"

#include <nlohmann/json.hpp>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/made_model.h"
#include "tests/worker/mutate.h"
#include "worker/exchange/model_limits.h"

namespace stretto {
namespace {

using nlohmann::json;
using testing::HasSubstr;

ModelNote Llama() {
  ModelNote note{.model = OddLlama(), .dtype = "BF16", .tokenizer = "files"};
  note.model.rotary_scaling.low_frequency_factor = 1.5;
  return note;
}

TEST(ModelNoteTest, TextIsAsDocumented) {
  EXPECT_EQ(ModelNoteText(Llama()), R"({
 "family": "llama",
 "layers": 2,
 "hidden": 32,
 "heads": 4,
 "kv_heads": 2,
 "ffn_hidden": 48,
 "sequence_length": 300,
 "vocab_size": 90,
 "norm_epsilon": 0.01,
 "tied_head": true,
 "rotary_base": 500,
 "rotary_scaling": {
  "kind": "llama3",
  "factor": 4.0,
  "low_frequency_factor": 1.5,
  "high_frequency_factor": 4.0,
  "original_sequence_length": 64
 },
 "weights": "BF16",
 "tokenizer": "files"
}
)");
}

TEST(ModelNoteTest, TextIsReadBack) {
  ModelNote linear = Llama(), plain = Llama();
  linear.model.rotary_scaling = {.kind = RotaryScaling::Kind::kLinear, .factor = 2.5};
  plain.model.rotary_scaling = {};
  plain.model.norm_epsilon = 0.1 + 0.2;  // every digit counts
  const ModelNote gpt{.model = SmallGpt(), .dtype = "F32", .tokenizer = ""};
  for (const ModelNote& note : {Llama(), linear, plain, gpt}) {
    const auto read = ParseModelNote(ModelNoteText(note), "model.json");
    ASSERT_TRUE(read.ok()) << read.status();
    const ModelSpec &a = note.model, &b = read->model;
    EXPECT_EQ(a.architecture.family, b.architecture.family);
    EXPECT_EQ(a.layers, b.layers);
    EXPECT_EQ(a.hidden, b.hidden);
    EXPECT_EQ(a.heads, b.heads);
    EXPECT_EQ(a.key_heads(), b.key_heads());
    EXPECT_EQ(a.ffn_hidden, b.ffn_hidden);
    EXPECT_EQ(a.sequence_length, b.sequence_length);
    EXPECT_EQ(a.vocab_size, b.vocab_size);
    EXPECT_EQ(a.rotary_base, b.rotary_base);
    EXPECT_EQ(a.norm_epsilon, b.norm_epsilon);
    EXPECT_EQ(a.head_is_tied(), b.head_is_tied());
    EXPECT_EQ(a.rotary_scaling, b.rotary_scaling);
    EXPECT_EQ(note.dtype, read->dtype);
    EXPECT_EQ(note.tokenizer, read->tokenizer);
    EXPECT_EQ(ModelNoteText(note), ModelNoteText(*read));
  }
}

TEST(ModelNoteTest, WrongFieldsAreNamed) {
  const struct {
    const char* key;
    const char* value;  // JSON; empty: taken out
    const char* said;
  } bad[] = {
      {"family", "\"bert\"", "family: found 'bert', expected gpt or llama"},
      {"family", "\"gpt\"", "field: found 'rotary_base', expected no such field"},
      {"layers", "0", "layers: found 0, expected 1 to 256"},
      {"layers", "2.5", "layers: found 2.5"},
      {"hidden", "", "hidden: found nothing"},
      {"hidden", "9999999999", "hidden: found 9999999999"},
      {"heads", "5", "model.heads: found 5, expected a divisor of hidden 32"},
      {"kv_heads", "3", "model.kv_heads: found 3"},
      {"vocab_size", "1", "model.vocab_size: found 1, expected 2 to 4194304"},
      {"sequence_length", "-1", "sequence_length: found -1"},
      {"ffn_hidden", "\"4\"", "ffn_hidden: found string"},
      {"norm_epsilon", "0", "norm_epsilon: found 0"},
      {"tied_head", "1", "tied_head: found 1, expected true or false"},
      {"rotary_base", "0", "rotary_base: found 0"},
      {"rotary_scaling", "3", "rotary_scaling: found number"},
      {"rotary_scaling", "{\"kind\": \"yarn\"}", "rotary_scaling: kind: found 'yarn'"},
      {"rotary_scaling", "{\"kind\": \"linear\"}", "rotary_scaling: factor: found nothing"},
      {"rotary_scaling", "{\"kind\": \"none\", \"factor\": 2}",
       "found 'factor', expected no such field"},
      {"rotary_scaling", "{\"kind\": \"linear\", \"factor\": 0.5}",
       "factor: found 0.5, expected 1 to 1024"},
      {"weights", "\"F64\"", "weights: found 'F64', expected F32, BF16 or F16"},
      {"tokenizer", "\"other\"", "tokenizer: found 'other'"},
      {"dropout", "0.5", "found 'dropout', expected no such field"},
  };
  for (const auto& [key, value, said] : bad) {
    json note = json::parse(ModelNoteText(Llama()));
    note.erase(key);
    if (value[0] != '\0') note[key] = json::parse(value);
    const auto read = ParseModelNote(note.dump(), "x/model.json");
    ASSERT_TRUE(absl::IsInvalidArgument(read.status())) << key << " " << value;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("x/model.json"));
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(said));
  }
}

TEST(ModelNoteTest, DamagedTextIsRefusedOrValid) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    const auto read = ParseModelNote(Mutate(ModelNoteText(Llama()), &random), "model.json");
    if (!read.ok()) continue;
    EXPECT_TRUE(CheckModel(read->model, "").ok());
  }
}

}  // namespace
}  // namespace stretto
