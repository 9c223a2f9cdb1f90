// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/tokenizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/tiny_model.h"
#include "tests/worker/test_files.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TokenizerTest, BytesAreTheirOwnTokensAnd256EndsADocument) {
  const auto tokenizer = MakeByteTokenizer();
  EXPECT_EQ(tokenizer->info().kind, "bytes");
  EXPECT_EQ(tokenizer->info().vocab_size, 257);
  EXPECT_EQ(tokenizer->info().end_of_document, 256);
  const auto tokens = tokenizer->Encode("A\xff\n");
  ASSERT_TRUE(tokens.ok());
  EXPECT_THAT(*tokens, ElementsAre(65, 255, 10));
  EXPECT_EQ(*tokenizer->Decode({65, 256, 255}), "A\xff");
  EXPECT_EQ(tokenizer->Decode({257}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, SentencePieceModelEncodesWithItsPieces) {
  TestFolder folder;
  Spill(folder / "tiny.model", TinyModel(/*with_end=*/true));
  const auto tokenizer = LoadSentencePieceTokenizer(folder / "tiny.model");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->info().kind, "sentencepiece");
  EXPECT_EQ((*tokenizer)->info().vocab_size, 7);
  EXPECT_EQ((*tokenizer)->info().end_of_document, 2);
  EXPECT_EQ((*tokenizer)->info().hash.size(), 64u);
  const auto tokens = (*tokenizer)->Encode("ab b");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(*tokens, ElementsAre(3, 6, 3, 5));
  EXPECT_EQ(*(*tokenizer)->Decode({3, 6, 3, 5, 2}), "ab b");
  EXPECT_EQ((*tokenizer)->Decode({7}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, WhatLiesBesideASentencePieceModelGoesWithIt) {
  TestFolder folder;
  Spill(folder / "tiny.model", TinyModel(true));
  for (const char* name : {"tokenizer_config.json", "tokenizer.model", "notes.txt"}) {
    Spill(folder / name, "x");
  }
  const auto tokenizer = LoadSentencePieceTokenizer(folder / "tiny.model");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::vector<std::string> files;
  for (const TokenizerFile& file : (*tokenizer)->files()) {
    files.push_back(file.name + " = " + file.path.substr(file.path.rfind('/') + 1));
  }
  EXPECT_THAT(files, ElementsAre("tokenizer.model = tiny.model",
                                 "tokenizer_config.json = tokenizer_config.json"));
}

TEST(TokenizerTest, FileThatIsNoModelIsRefused) {
  TestFolder folder;
  Spill(folder / "no.model", "hello");
  const auto bad = LoadSentencePieceTokenizer(folder / "no.model");
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("no.model: found no SentencePiece"));
  EXPECT_EQ(LoadSentencePieceTokenizer(folder / "none").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TokenizerTest, ModelWithoutEndOfSentenceIsRefused) {
  TestFolder folder;
  Spill(folder / "tiny.model", TinyModel(/*with_end=*/false));
  const auto bad = LoadSentencePieceTokenizer(folder / "tiny.model");
  EXPECT_EQ(bad.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("found a model without </s>"));
}

TEST(TokenizerInfoTest, RoundTrips) {
  TestFolder folder;
  const TokenizerInfo info{"bytes", 257, 256, "abc"};
  ASSERT_TRUE(WriteTokenizerInfo(folder / "x", info).ok());
  const auto read = ReadTokenizerInfo(folder / "x");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, info);
}

TEST(TokenizerInfoTest, OnlyANoteOfADataSetWithAMaskSaysSo) {
  TestFolder folder;
  const TokenizerInfo info{"bytes", 257, 256, "abc"};
  ASSERT_TRUE(WriteTokenizerInfo(folder / "x", info, /*masked=*/true).ok());
  EXPECT_TRUE(ReadDataNote(folder / "x")->masked);
  EXPECT_EQ(*ReadTokenizerInfo(folder / "x"), info);
  ASSERT_TRUE(WriteTokenizerInfo(folder / "x", info).ok());
  EXPECT_FALSE(ReadDataNote(folder / "x")->masked);
  EXPECT_THAT(Slurp(folder / "x.tokenizer.json"), testing::Not(HasSubstr("masked")));
}

TEST(TokenizerInfoTest, WhatIsNotExactlyTheNoteIsRefused) {
  TestFolder folder;
  auto message = [&](const std::string& text) {
    Spill(folder / "x.tokenizer.json", text);
    const auto read = ReadTokenizerInfo(folder / "x");
    EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(read.status().message());
  };
  EXPECT_EQ(ReadTokenizerInfo(folder / "y").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message("{"), HasSubstr("x.tokenizer.json: found no JSON object"));
  EXPECT_THAT(message(R"({"kind":"bytes"})"), HasSubstr("found 1 fields, expected kind"));
  EXPECT_THAT(message(R"({"kind":1,"vocab_size":2,"end_of_document":1,"hash":""})"),
              HasSubstr("field kind is missing or no text"));
  EXPECT_THAT(message(R"({"kind":"a","vocab_size":-2,"end_of_document":1,"hash":""})"),
              HasSubstr("field vocab_size is missing or no count"));
  EXPECT_THAT(message(R"({"kind":"a","vocab_size":5,"end_of_document":5,"hash":""})"),
              HasSubstr("found 5, expected a token below vocab_size 5"));
  EXPECT_THAT(
      message(R"({"kind":"a","vocab_size":5,"end_of_document":4,"hash":"","masked":false})"),
      HasSubstr("field masked: found false, expected true or no such field"));
}

}  // namespace
}  // namespace stretto
