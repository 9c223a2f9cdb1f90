// SPDX-License-Identifier: Apache-2.0
#include "worker/data/indexed_dataset.h"

#include <cstring>
#include <numeric>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/mutate.h"
#include "tests/worker/test_files.h"

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Written by Megatron-LM's own writer: u16, documents [[1..5],[6,7,8]] and [[9,10,11,50256]].
constexpr char kGoldenIndex[] =
    "4d4d494449445800000100000000000000080300000000000000030000000000000005000000030000000400000000"
    "00"
    "0000000000000a000000000000001000000000000000000000000000000002000000000000000300000000000000";
constexpr char kGoldenBin[] = "0100020003000400050006000700080009000a000b0050c4";

std::string GoldenIndex() { return absl::HexStringToBytes(kGoldenIndex); }
std::string GoldenBin() { return absl::HexStringToBytes(kGoldenBin); }

template <class T>
void Poke(std::string* content, size_t offset, T value) {
  ASSERT_LE(offset + sizeof(T), content->size());
  std::memcpy(content->data() + offset, &value, sizeof(T));
}

class IndexedDatasetTest : public testing::Test {
 protected:
  absl::Status OpenStatus(const std::string& index, const std::string& bin) {
    Spill(prefix_ + ".idx", index);
    Spill(prefix_ + ".bin", bin);
    return IndexedDataset::Open(prefix_).status();
  }
  // The golden index with one field overwritten must be refused with this text.
  template <class T>
  void ExpectRefused(size_t offset, T value, const std::string& message) {
    std::string index = GoldenIndex();
    Poke(&index, offset, value);
    const absl::Status status = OpenStatus(index, GoldenBin());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(prefix_ + ".idx: " + message));
  }

  TestFolder folder_;
  std::string prefix_ = folder_ / "text";
};

TEST_F(IndexedDatasetTest, ReadsWhatMegatronWrote) {
  Spill(prefix_ + ".idx", GoldenIndex());
  Spill(prefix_ + ".bin", GoldenBin());
  const auto dataset = IndexedDataset::Open(prefix_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->type(), TokenType::kU16);
  EXPECT_EQ(dataset->sequence_count(), 3);
  EXPECT_EQ(dataset->document_count(), 2);
  ASSERT_EQ(dataset->token_count(), 12);
  std::vector<int32_t> tokens(12);
  ASSERT_TRUE(dataset->Read(0, 50257, tokens).ok());
  EXPECT_THAT(tokens, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 50256));
  std::vector<int32_t> middle(3);
  ASSERT_TRUE(dataset->Read(4, 50257, middle).ok());
  EXPECT_THAT(middle, ElementsAre(5, 6, 7));
}

TEST_F(IndexedDatasetTest, WritesTheBytesOfMegatron) {
  auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, false);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{1, 2, 3, 4, 5}).ok());
  ASSERT_TRUE(writer->AddSequence(std::vector<int32_t>{6, 7, 8}).ok());
  writer->EndDocument();
  ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{9, 10, 11, 50256}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(absl::BytesToHexString(Slurp(prefix_ + ".idx")), kGoldenIndex);
  EXPECT_EQ(absl::BytesToHexString(Slurp(prefix_ + ".bin")), kGoldenBin);
}

TEST_F(IndexedDatasetTest, EveryTokenTypeRoundTrips) {
  for (TokenType type : {TokenType::kU8, TokenType::kI8, TokenType::kI16, TokenType::kI32,
                         TokenType::kI64, TokenType::kU16}) {
    auto writer = IndexedDatasetWriter::Create(prefix_, type, /*overwrite=*/true);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{0, 127, 5}).ok());
    ASSERT_TRUE(writer->Finish().ok());
    const auto dataset = IndexedDataset::Open(prefix_);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    std::vector<int32_t> tokens(3);
    ASSERT_TRUE(dataset->Read(0, 128, tokens).ok()) << NameOf(type);
    EXPECT_THAT(tokens, ElementsAre(0, 127, 5)) << NameOf(type);
  }
}

TEST_F(IndexedDatasetTest, SequencesOutOfFileOrderAreReadInSequenceOrder) {
  std::string index = GoldenIndex();
  Poke<int64_t>(&index, 46, 14);  // [8,9,10,11,50256]
  Poke<int64_t>(&index, 62, 0);   // [1,2,3,4]
  ASSERT_TRUE(OpenStatus(index, GoldenBin()).ok());
  const auto dataset = IndexedDataset::Open(prefix_);
  std::vector<int32_t> tokens(10);
  ASSERT_TRUE(dataset->Read(1, 50257, tokens).ok());
  EXPECT_THAT(tokens, ElementsAre(9, 10, 11, 50256, 6, 7, 8, 1, 2, 3));
}

TEST_F(IndexedDatasetTest, LyingHeadersAreRefused) {
  ExpectRefused<char>(0, 'X', "magic at byte 0: found other bytes");
  ExpectRefused<uint64_t>(9, 2, "version at byte 9: found 2, expected 1");
  ExpectRefused<uint8_t>(17, 7, "token type code at byte 17: found 7, expected an integer type");
  ExpectRefused<uint8_t>(17, 0, "token type code at byte 17: found 0");
  ExpectRefused<uint64_t>(
      18, UINT64_MAX / 12 + 3,
      "sequence count at byte 18: found 1537228672809129304, expected at most 5");
  ExpectRefused<uint64_t>(18, 6, "sequence count at byte 18: found 6, expected at most 5");
  ExpectRefused<uint64_t>(26, UINT64_MAX, "document count at byte 26: found 18446744073709551615");
  ExpectRefused<uint64_t>(26, 2,
                          "document count at byte 26: found 2 (with 3 sequences in a file of 94 "
                          "bytes), expected 3");
}

TEST_F(IndexedDatasetTest, LyingSequencesAreRefused) {
  ExpectRefused<int32_t>(38, -1, "length of sequence 1 at byte 38: found -1, expected 0 or more");
  ExpectRefused<int32_t>(42, 5,
                         "pointer of sequence 2 at byte 62: found 16 with 5 tokens of 2 bytes, "
                         "expected an end within the 24 bytes of " +
                             prefix_ + ".bin");
  ExpectRefused<int64_t>(54, -2, "pointer of sequence 1 at byte 54: found -2");
  ExpectRefused<int64_t>(54, INT64_MAX,
                         "pointer of sequence 1 at byte 54: found 9223372036854775807");
}

TEST_F(IndexedDatasetTest, LyingDocumentsAreRefused) {
  ExpectRefused<int64_t>(70, 1, "document boundary 0 at byte 70: found 1, expected 0");
  ExpectRefused<int64_t>(78, 4, "document boundary 2 at byte 86: found 3, expected no less than");
  ExpectRefused<int64_t>(86, 2,
                         "document boundary 2 at byte 86: found 2, expected the sequence count");
}

TEST_F(IndexedDatasetTest, EveryTruncationOfTheIndexIsRefused) {
  for (size_t size = 0; size < GoldenIndex().size(); ++size) {
    const absl::Status status = OpenStatus(GoldenIndex().substr(0, size), GoldenBin());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(status.message()), HasSubstr("text.idx")) << size;
  }
  const absl::Status status = OpenStatus(GoldenIndex(), GoldenBin().substr(0, 22));
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected an end within the 22 bytes"));
}

TEST_F(IndexedDatasetTest, ZeroLengthDataIsRefused) {
  std::string index = GoldenIndex().substr(0, 34) + std::string(8, '\0');
  Poke<uint64_t>(&index, 18, 0);
  Poke<uint64_t>(&index, 26, 1);
  const absl::Status status = OpenStatus(index, "");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("data has zero length: found 0 tokens"));
}

TEST_F(IndexedDatasetTest, MissingFilesAreNotFound) {
  EXPECT_EQ(IndexedDataset::Open(prefix_).status().code(), absl::StatusCode::kNotFound);
  Spill(prefix_ + ".idx", GoldenIndex());
  const absl::Status status = IndexedDataset::Open(prefix_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("text.bin"));
}

TEST_F(IndexedDatasetTest, TokenBeyondTheVocabularyNamesFileAndByte) {
  ASSERT_TRUE(OpenStatus(GoldenIndex(), GoldenBin()).ok());
  const auto dataset = IndexedDataset::Open(prefix_);
  std::vector<int32_t> tokens(4);
  const absl::Status status = dataset->Read(8, 50256, tokens);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), prefix_ +
                                  ".bin: token 11 at byte 22: found 50256, expected a token in "
                                  "[0, 50256)");
}

TEST_F(IndexedDatasetTest, ReadBeyondTheStreamIsOutOfRange) {
  ASSERT_TRUE(OpenStatus(GoldenIndex(), GoldenBin()).ok());
  const auto dataset = IndexedDataset::Open(prefix_);
  std::vector<int32_t> tokens(4);
  EXPECT_EQ(dataset->Read(9, 60000, tokens).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(dataset->Read(-1, 60000, tokens).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(dataset->Read(INT64_MAX, 60000, tokens).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(IndexedDatasetTest, MutatedFilesGiveAStatusAndNeverCrash) {
  std::mt19937_64 random(1);
  int opened = 0;
  for (int i = 0; i < 3000; ++i) {
    Spill(prefix_ + ".idx", Mutate(GoldenIndex(), &random));
    Spill(prefix_ + ".bin", i % 3 == 0 ? Mutate(GoldenBin(), &random) : GoldenBin());
    const auto dataset = IndexedDataset::Open(prefix_);
    if (!dataset.ok()) continue;
    ++opened;
    std::vector<int32_t> tokens(static_cast<size_t>(std::min<int64_t>(dataset->token_count(), 64)));
    (void)dataset->Read(dataset->token_count() - static_cast<int64_t>(tokens.size()), 65536,
                        tokens);
  }
  EXPECT_GT(opened, 5);     // some damage is invisible: a smaller token, say
  EXPECT_LT(opened, 2000);  // and large enough to matter
}

TEST_F(IndexedDatasetTest, WriterRefusesATokenThatDoesNotFit) {
  auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, false);
  const absl::Status status = writer->AddSequence(std::vector<int32_t>{1, 65536});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found token 65536 in sequence 0, expected one that fits u16"));
}

TEST_F(IndexedDatasetTest, WriterRefusesToReplaceUnlessTold) {
  ASSERT_TRUE(OpenStatus(GoldenIndex(), GoldenBin()).ok());
  const auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, false);
  EXPECT_EQ(writer.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(writer.status().message()), HasSubstr(prefix_ + ".idx exists"));
}

TEST_F(IndexedDatasetTest, FullDiskLeavesNoIndexAndTheOldDataSetAsItWas) {
  ASSERT_TRUE(OpenStatus(GoldenIndex(), GoldenBin()).ok());
  {
    auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, /*overwrite=*/true);
    ASSERT_TRUE(writer.ok());
    FullDisk disk(4096);
    ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>(4000, 7)).ok());
    const absl::Status status = writer->Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(prefix_ + ".bin.tmp"));
  }
  EXPECT_EQ(Slurp(prefix_ + ".idx"), GoldenIndex());
  EXPECT_EQ(Slurp(prefix_ + ".bin"), GoldenBin());
  EXPECT_FALSE(std::filesystem::exists(prefix_ + ".bin.tmp"));
}

TEST_F(IndexedDatasetTest, FullDiskAtTheIndexLeavesNothing) {
  {
    auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, false);
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{1}).ok());
    FullDisk disk(4096);  // 1,000 bytes of tokens, 10,042 of index
    EXPECT_EQ(writer->Finish().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(IndexedDatasetTest, UnfinishedWriterRemovesItsFile) {
  {
    auto writer = IndexedDatasetWriter::Create(prefix_, TokenType::kU16, false);
    ASSERT_TRUE(writer->AddDocument(std::vector<int32_t>{1}).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace stretto
