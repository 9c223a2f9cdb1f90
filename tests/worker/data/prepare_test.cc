// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/prepare.h"

#include <unistd.h>

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/tiny_model.h"
#include "tests/worker/test_files.h"
#include "worker/data/indexed_dataset.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int32_t> AllTokens(const std::string& prefix, int32_t vocab_size) {
  const auto dataset = IndexedDataset::Open(prefix);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  std::vector<int32_t> tokens(static_cast<size_t>(dataset->token_count()));
  EXPECT_TRUE(dataset->Read(0, vocab_size, tokens).ok());
  return tokens;
}

TEST(PrepareTest, WalksFoldersInSortedOrderAndSkipsBinaryFiles) {
  TestFolder in, out;
  std::filesystem::create_directories(in / "b");
  Spill(in / "b/2.txt", "two");
  Spill(in / "a.txt", "A");
  Spill(in / "c.bin", std::string("x\0y", 3));
  Spill(in / "empty.txt", "");
  const auto summary =
      Prepare({{in.path(), in / "a.txt"}, out / "text", false}, *MakeByteTokenizer());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->files, 4);
  EXPECT_EQ(summary->skipped_binary, 1);
  EXPECT_EQ(summary->documents, 3);
  EXPECT_EQ(summary->tokens, 8);
  EXPECT_EQ(summary->bytes, 5);
  EXPECT_THAT(AllTokens(out / "text", 257), ElementsAre('A', 256, 't', 'w', 'o', 256, 'A', 256));
  EXPECT_EQ(IndexedDataset::Open(out / "text")->type(), TokenType::kU16);
  EXPECT_EQ(ReadTokenizerInfo(out / "text")->kind, "bytes");
}

TEST(PrepareTest, SentencePieceDocumentsEndWithTheModelsOwnEnd) {
  TestFolder folder;
  Spill(folder / "tiny.model", TinyModel(true));
  Spill(folder / "a.txt", "ab");
  const auto tokenizer = LoadSentencePieceTokenizer(folder / "tiny.model");
  ASSERT_TRUE(tokenizer.ok());
  ASSERT_TRUE(Prepare({{folder / "a.txt"}, folder / "out", false}, **tokenizer).ok());
  EXPECT_THAT(AllTokens(folder / "out", 7), ElementsAre(3, 6, 2));
}

TEST(PrepareTest, OutputInsideTheInputIsNotInput) {
  TestFolder folder;
  Spill(folder / "a.txt", "hello");
  const PrepareOptions options{{folder.path()}, folder / "out", true};
  ASSERT_TRUE(Prepare(options, *MakeByteTokenizer()).ok());
  const auto again = Prepare(options, *MakeByteTokenizer());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->files, 1);
  EXPECT_EQ(again->skipped_binary, 0);
}

TEST(PrepareTest, RefusesInputsThatGiveNoTokens) {
  TestFolder in, out;
  auto prepare = [&](std::vector<std::string> inputs) {
    return Prepare({std::move(inputs), out / "text", false}, *MakeByteTokenizer()).status();
  };
  absl::Status status = prepare({in.path()});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found no file in 1 inputs"));

  status = prepare({in / "none"});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("input " + (in / "none")));

  Spill(in / "nul", std::string(3, '\0'));
  Spill(in / "empty", "");
  status = prepare({in.path()});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found no text in 2 files (1 skipped as binary)"));

  status = prepare({"/dev/null"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a regular file or a folder"));
  EXPECT_TRUE(std::filesystem::is_empty(out.path()));
}

TEST(PrepareTest, UnreadableFileIsNamed) {
  TestFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  Spill(folder / "secret", "x");
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  const uid_t user = ::geteuid();
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);  // root reads everything
  const auto summary = Prepare({{folder / "secret"}, folder / "out", false}, *MakeByteTokenizer());
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_EQ(summary.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(summary.status().message()), HasSubstr(folder / "secret"));
}

TEST(PrepareTest, ExistingOutputIsKeptUnlessTold) {
  TestFolder folder;
  Spill(folder / "a.txt", "a");
  ASSERT_TRUE(Prepare({{folder / "a.txt"}, folder / "out", false}, *MakeByteTokenizer()).ok());
  const absl::Status status =
      Prepare({{folder / "a.txt"}, folder / "out", false}, *MakeByteTokenizer()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("out.idx exists"));
}

TEST(PrepareTest, FullDiskLeavesNoIndex) {
  TestFolder in, out;
  Spill(in / "a.txt", std::string(10000, 'a'));
  FullDisk disk(4096);
  const absl::Status status =
      Prepare({{in.path()}, out / "text", false}, *MakeByteTokenizer()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(std::filesystem::exists(out / "text.idx"));
  EXPECT_FALSE(std::filesystem::exists(out / "text.bin"));
}

// Cut into pieces of a hundred bytes, three to a part.
PrepareOptions InSmallPieces(PrepareOptions options, int threads) {
  options.threads = threads;
  options.sizes = {.piece = 100, .part = 300, .longest_whole = 5000};
  return options;
}

// Documents as their tokens.
std::vector<std::vector<int32_t>> Documents(const std::string& prefix, int32_t vocab_size) {
  const std::vector<int32_t> tokens = AllTokens(prefix, vocab_size);
  const auto dataset = IndexedDataset::Open(prefix);
  std::vector<std::vector<int32_t>> documents;
  auto at = tokens.begin();
  for (int64_t i = 0; i < dataset->document_count(); ++i) {
    auto& document = documents.emplace_back();
    for (int64_t k = dataset->FirstSequence(i); k < dataset->FirstSequence(i + 1); ++k) {
      document.insert(document.end(), at, at + dataset->SequenceLength(k));
      at += dataset->SequenceLength(k);
    }
  }
  EXPECT_EQ(at, tokens.end());
  return documents;
}

std::unique_ptr<Tokenizer> GoldenTokenizer(const std::string& name, const std::string& end) {
  auto tokenizer =
      LoadBytePairTokenizer(STRETTO_SOURCE_DIR "/tests/golden/tokenizer/" + name + ".json", end);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

TEST(PrepareTest, PiecesAndThreadsDoNotChangeTheResult) {
  TestFolder in, out;
  std::string text, lines;
  for (int i = 0; i < 200; ++i) {
    text += "line " + std::to_string(i * i) + " of the text's\n\n  größer: x[" + std::to_string(i) +
            "]!\n";
    lines += R"({"text": "the )" + std::to_string(i) + R"(th\ndocument", "other": 1})" + "\n";
    if (i % 7 == 0) lines += "{\"text\": \"\"}\n \n";
  }
  Spill(in / "a.txt", text);
  Spill(in / "b.jsonl", lines);
  Spill(in / "c.txt", "short");
  Spill(in / "d.txt", text.substr(0, 1000));
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers.push_back(MakeByteTokenizer());
  tokenizers.push_back(GoldenTokenizer("gpt2_kind", "<|endoftext|>"));
  tokenizers.push_back(GoldenTokenizer("llama3_kind", "<|end_of_text|>"));
  for (const auto& tokenizer : tokenizers) {
    const int32_t vocab = tokenizer->info().vocab_size;
    const auto whole = Prepare({{in.path()}, out / "whole", true}, *tokenizer);
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->documents, 203);
    for (const int threads : {1, 3}) {
      const auto cut =
          Prepare(InSmallPieces({{in.path()}, out / "cut", true}, threads), *tokenizer);
      ASSERT_TRUE(cut.ok()) << cut.status();
      EXPECT_EQ(cut->tokens, whole->tokens);
      EXPECT_EQ(Documents(out / "cut", vocab), Documents(out / "whole", vocab));
      EXPECT_GT(IndexedDataset::Open(out / "cut")->sequence_count(), 203);
      EXPECT_FALSE(std::filesystem::exists(out / "cut.parts"));
    }
  }
}

// Bytes, but for a text that begins with '!' while `fail` is set; counts what it encodes.
class FailingTokenizer final : public Tokenizer {
 public:
  const TokenizerInfo& info() const override { return bytes_->info(); }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override {
    if (fail && text[0] == '!') return absl::InvalidArgumentError("it is bad");
    encoded += static_cast<int64_t>(text.size());
    return bytes_->Encode(text);
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const override {
    return bytes_->Decode(tokens);
  }
  bool CanCut(char, char) const override { return true; }
  bool fail = true;
  mutable int64_t encoded = 0;

 private:
  std::unique_ptr<Tokenizer> bytes_ = MakeByteTokenizer();
};

TEST(PrepareTest, GoesOnWhereAFailureLeftOff) {
  TestFolder in, out;
  Spill(in / "a.txt", std::string(950, 'a'));
  Spill(in / "b.txt", "!" + std::string(500, 'b'));
  FailingTokenizer tokenizer;
  const PrepareOptions options = InSmallPieces({{in.path()}, out / "set"}, 1);
  const absl::Status status = Prepare(options, tokenizer).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("b.txt: it is bad"));
  EXPECT_FALSE(std::filesystem::exists(out / "set.idx"));

  tokenizer.fail = false;
  tokenizer.encoded = 0;
  const auto summary = Prepare(options, tokenizer);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->tokens, 950 + 501 + 2);
  EXPECT_EQ(tokenizer.encoded, 950 + 501 - 900);  // three whole parts were done
  EXPECT_EQ(Documents(out / "set", 257).size(), 2u);
}

TEST(PrepareTest, PartsOfOtherInputAreNotTaken) {
  TestFolder in, out;
  Spill(in / "a.txt", std::string(950, 'a'));
  Spill(in / "b.txt", "!");
  FailingTokenizer tokenizer;
  const PrepareOptions options = InSmallPieces({{in.path()}, out / "set"}, 1);
  EXPECT_FALSE(Prepare(options, tokenizer).ok());
  Spill(in / "a.txt", std::string(949, 'c'));
  tokenizer.fail = false;
  tokenizer.encoded = 0;
  ASSERT_TRUE(Prepare(options, tokenizer).ok());
  EXPECT_EQ(tokenizer.encoded, 950);
  EXPECT_EQ(Documents(out / "set", 257)[0][0], 'c');
}

TEST(PrepareTest, FolderThatIsNotOursIsLeftAlone) {
  TestFolder folder;
  std::filesystem::create_directories(folder / "set.parts");
  Spill(folder / "set.parts/a.txt", "mine");
  const absl::Status status =
      Prepare({{folder / "set.parts/a.txt"}, folder / "set"}, *MakeByteTokenizer()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("set.parts: found a.txt, expected only"));
  EXPECT_EQ(Slurp(folder / "set.parts/a.txt"), "mine");
}

TEST(PrepareTest, OutputIsNotInputByAnotherName) {
  TestFolder folder;
  std::filesystem::create_directories(folder / "real");
  std::filesystem::create_directory_symlink(folder / "real", folder / "link");
  Spill(folder / "real/a.txt", "hello");
  PrepareOptions options{{folder / "real"}, folder / "link/../link/out", true};
  ASSERT_TRUE(Prepare(options, *MakeByteTokenizer()).ok());
  const auto again = Prepare(options, *MakeByteTokenizer());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->files + again->skipped_binary, 1);
}

TEST(PrepareTest, OneAtATimeForAPrefix) {
  TestFolder folder;
  Spill(folder / "a.txt", "hello");
  PrepareOptions options{{folder / "a.txt"}, folder / "out", true};
  absl::Status second;
  options.progress = [&](const PrepareProgress&) {
    PrepareOptions other = options;
    other.progress = nullptr;
    second = Prepare(other, *MakeByteTokenizer()).status();
  };
  ASSERT_TRUE(Prepare(options, *MakeByteTokenizer()).ok());
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another `data prepare` is writing it"));
}

TEST(PrepareTest, NewTokensNeverMeetAnOldNote) {
  TestFolder folder;
  Spill(folder / "a.txt", "hello");
  ASSERT_TRUE(Prepare({{folder / "a.txt"}, folder / "out"}, *MakeByteTokenizer()).ok());
  auto writer = IndexedDatasetWriter::Create(folder / "out", TokenType::kU16, true);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{1}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(ReadTokenizerInfo(folder / "out").status().code(), absl::StatusCode::kNotFound);
}

TEST(PrepareTest, ProgressCountsEveryByteOnceAndWhatWasDoneBefore) {
  TestFolder in, out;
  Spill(in / "a.txt", std::string(950, 'a'));
  Spill(in / "b.txt", "!");
  FailingTokenizer tokenizer;
  PrepareOptions options = InSmallPieces({{in.path()}, out / "set"}, 1);
  EXPECT_FALSE(Prepare(options, tokenizer).ok());
  tokenizer.fail = false;
  std::vector<int64_t> seen;
  options.progress = [&](const PrepareProgress& progress) {
    EXPECT_EQ(progress.total_bytes, 951);
    EXPECT_EQ(progress.resumed_bytes, 900);
    seen.push_back(progress.bytes);
  };
  ASSERT_TRUE(Prepare(options, tokenizer).ok());
  EXPECT_THAT(seen, ElementsAre(950, 951));
}

TEST(PrepareTest, LinesOfJsonTakeTheKeyTheyAreTold) {
  TestFolder folder;
  Spill(folder / "a.jsonl", "{\"body\": \"x\\ny\"}\r\n{\"body\": \"z\"}");
  PrepareOptions options{{folder / "a.jsonl"}, folder / "out"};
  options.lines.key = "body";
  ASSERT_TRUE(Prepare(options, *MakeByteTokenizer()).ok());
  EXPECT_THAT(AllTokens(folder / "out", 257), ElementsAre('x', '\n', 'y', 256, 'z', 256));
}

TEST(PrepareTest, LinesThatAreNoDocumentsAreNamed) {
  for (const std::string line : {"{\"text\": \"x\"", "[]", "{}", "{\"text\": null}", "\xff"}) {
    TestFolder folder;
    Spill(folder / "a.jsonl", "{\"text\": \"x\"}\n" + line + "\n");
    const absl::Status status =
        Prepare({{folder / "a.jsonl"}, folder / "out"}, *MakeByteTokenizer()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("a.jsonl: found " + line.substr(0, 10)));
    EXPECT_THAT(std::string(status.message()), HasSubstr("in the line at byte 14"));
  }
}

TEST(PrepareTest, LinesOfEmptyTextAloneAreNoText) {
  TestFolder in, out;
  Spill(in / "a.jsonl", "{\"text\": \"\"}\n");
  const absl::Status status = Prepare({{in.path()}, out / "out"}, *MakeByteTokenizer()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("found no text in 1 files"));
  EXPECT_TRUE(std::filesystem::is_empty(out.path()));
}

TEST(PrepareTest, WhatCannotBeCutMustFitMemory) {
  TestFolder folder;
  Spill(folder / "tiny.model", TinyModel(true));
  Spill(folder / "a.txt", std::string(5001, 'a'));
  Spill(folder / "b.jsonl", "{\"text\": \"" + std::string(5000, 'a') + "\"}\n");
  const auto tokenizer = LoadSentencePieceTokenizer(folder / "tiny.model");
  ASSERT_TRUE(tokenizer.ok());
  absl::Status status =
      Prepare(InSmallPieces({{folder / "a.txt"}, folder / "out"}, 1), **tokenizer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.txt: found no place to split in 5000 bytes from byte 0 on, expected a "
                        "shorter document"));
  status = Prepare(InSmallPieces({{folder / "b.jsonl"}, folder / "out"}, 1), *MakeByteTokenizer())
               .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a shorter line"));
}

// What lies in PREFIX.tokenizer, sorted.
std::vector<std::string> TokenizerFilesOf(const std::string& prefix) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(prefix + ".tokenizer", none)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(PrepareTest, KeepsTheTokenizersFilesAndReplacesThoseOfAnother) {
  TestFolder in, out;
  Spill(in / "a.txt", "ab");
  std::filesystem::create_directories(in / "model");
  std::filesystem::copy(STRETTO_SOURCE_DIR "/tests/golden/tokenizer/gpt2_kind.json",
                        in / "model/tokenizer.json");
  Spill(in / "model/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  Spill(in / "model/merges.txt", "x");
  Spill(in / "model/model.safetensors", "weights");
  const auto prepare = [&](const Tokenizer& tokenizer, bool overwrite = true) {
    return Prepare({{in / "a.txt"}, out / "set", overwrite}, tokenizer).status();
  };
  const auto byte_pair = MakeTokenizer("hf:" + (in / "model"), "");
  ASSERT_TRUE(byte_pair.ok()) << byte_pair.status();
  ASSERT_TRUE(prepare(**byte_pair, false).ok());
  EXPECT_THAT(TokenizerFilesOf(out / "set"),
              ElementsAre("merges.txt", "tokenizer.json", "tokenizer_config.json"));
  EXPECT_EQ(Slurp(out / "set.tokenizer/tokenizer.json"), Slurp(in / "model/tokenizer.json"));
  EXPECT_FALSE(std::filesystem::exists(out / "set.tokenizer.tmp"));
  EXPECT_EQ(prepare(**byte_pair, false).code(), absl::StatusCode::kAlreadyExists);

  Spill(in / "tiny.model", TinyModel(true));
  const auto pieces = MakeTokenizer("sentencepiece:" + (in / "tiny.model"), "");
  ASSERT_TRUE(pieces.ok());
  Spill(out / "set.tokenizer/mine.txt", "mine");
  ASSERT_TRUE(prepare(**pieces).ok());
  EXPECT_THAT(TokenizerFilesOf(out / "set"), ElementsAre("mine.txt", "tokenizer.model"));
  EXPECT_EQ(Slurp(out / "set.tokenizer/tokenizer.model"), TinyModel(true));

  std::filesystem::remove(out / "set.tokenizer/mine.txt");
  ASSERT_TRUE(prepare(*MakeByteTokenizer()).ok());
  EXPECT_FALSE(std::filesystem::exists(out / "set.tokenizer"));
}

TEST(PrepareTest, ATokenizerMayLieWhereItWillBeKept) {
  TestFolder folder;
  Spill(folder / "a.txt", "ab");
  std::filesystem::create_directories(folder / "set.tokenizer");
  Spill(folder / "set.tokenizer/tokenizer.model", TinyModel(true));
  const auto tokenizer =
      MakeTokenizer("sentencepiece:" + (folder / "set.tokenizer/tokenizer.model"), "");
  ASSERT_TRUE(tokenizer.ok());
  const PrepareOptions options{{folder / "a.txt"}, folder / "set"};
  EXPECT_EQ(Prepare(options, **tokenizer).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(Prepare({options.inputs, options.prefix, true}, **tokenizer).ok());
  EXPECT_EQ(Slurp(folder / "set.tokenizer/tokenizer.model"), TinyModel(true));
}

// A disk that is full before the tokens are in place leaves the old data set with its tokenizer.
TEST(PrepareTest, FullDiskLeavesTheOldTokenizerWithTheOldTokens) {
  TestFolder folder;
  Spill(folder / "a.txt", "ab");
  Spill(folder / "tiny.model", TinyModel(true));
  const auto pieces = MakeTokenizer("sentencepiece:" + (folder / "tiny.model"), "");
  ASSERT_TRUE(pieces.ok());
  const PrepareOptions options{{folder / "a.txt"}, folder / "set", true};
  ASSERT_TRUE(Prepare(options, **pieces).ok());
  const auto large = GoldenTokenizer("gpt2_kind", "<|endoftext|>");
  {
    FullDisk disk(4096);
    EXPECT_EQ(Prepare(options, *large).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_THAT(TokenizerFilesOf(folder / "set"), ElementsAre("tokenizer.model"));
  EXPECT_EQ(ReadTokenizerInfo(folder / "set")->kind, "sentencepiece");
  ASSERT_TRUE(Prepare(options, *large).ok());
  EXPECT_THAT(TokenizerFilesOf(folder / "set"), ElementsAre("tokenizer.json"));
}

TEST(PrepareTest, EmptyDocumentsAreLeftOut) {
  TestFolder in, out;
  Spill(in / "a.txt", "");
  Spill(in / "b.jsonl", "{\"text\": \"\"}\n{\"text\": \"x\"}\n{\"text\": \"\"}\n");
  Spill(in / "c.txt", "");
  const auto summary = Prepare({{in.path()}, out / "set"}, *MakeByteTokenizer());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->documents, 1);
  EXPECT_THAT(AllTokens(out / "set", 257), ElementsAre('x', 256));
}

TEST(PrepareTest, BytesTakeTextThatIsNoUtf8) {
  TestFolder folder;
  Spill(folder / "a.txt", "\xff\xc3");
  ASSERT_TRUE(Prepare({{folder / "a.txt"}, folder / "set"}, *MakeByteTokenizer()).ok());
  EXPECT_THAT(AllTokens(folder / "set", 257), ElementsAre(0xff, 0xc3, 256));
}

TEST(PrepareTest, TextThatIsNoUtf8IsNamedWithItsPlace) {
  TestFolder folder;
  Spill(folder / "a.txt", std::string(99, 'a') + "b\nc\xff");
  const absl::Status status = Prepare(InSmallPieces({{folder / "a.txt"}, folder / "out"}, 1),
                                      *GoldenTokenizer("gpt2_kind", "<|endoftext|>"))
                                  .status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.txt, text from byte 100 on: byte 2: found no UTF-8"));
  Spill(folder / "tiny.model", TinyModel(true));
  Spill(folder / "b.txt", "ab\xc3");
  const auto pieces = LoadSentencePieceTokenizer(folder / "tiny.model");
  ASSERT_TRUE(pieces.ok());
  EXPECT_THAT(
      std::string(Prepare({{folder / "b.txt"}, folder / "out"}, **pieces).status().message()),
      HasSubstr("b.txt: byte 2: found no UTF-8"));
}

}  // namespace
}  // namespace stretto
