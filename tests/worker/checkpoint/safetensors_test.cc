// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/safetensors.h"

#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/mutate.h"
#include "tests/worker/test_files.h"
#include "worker/checkpoint/checked_file.h"

namespace stretto {
namespace {

using testing::HasSubstr;

// A file by hand: length, JSON, data.
std::string File(const std::string& json, const std::string& data) {
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + json + data;
}

std::string Bytes(const SafetensorsReader& reader, const std::string& name) {
  const StoredTensor* tensor = reader.Find(name);
  std::string bytes(static_cast<size_t>(tensor->bytes), '\0');
  EXPECT_TRUE(reader.Read(*tensor, 0, tensor->bytes, bytes.data()).ok());
  return bytes;
}

TEST(Crc32cTest, KnownValueHoldsHoweverTheBytesAreCut) {
  const std::string digits = "123456789";  // check value of CRC-32C (RFC 3720 uses the same code)
  EXPECT_EQ(Crc32c(digits), 0xE3069283u);
  for (size_t cut = 0; cut <= digits.size(); ++cut) {
    EXPECT_EQ(Crc32c(digits.substr(cut), Crc32c(digits.substr(0, cut))), 0xE3069283u) << cut;
  }
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
}

class SafetensorsTest : public testing::Test {
 protected:
  void ExpectRefused(const std::string& content, const std::string& message) {
    Spill(path_, content);
    const absl::Status status = SafetensorsReader::Open(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << content;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ": " + message));
  }

  TestFolder folder_;
  std::string path_ = folder_ / "x.safetensors";
};

TEST_F(SafetensorsTest, WritesTheFormatByteForByte) {
  const float w[] = {1, 2};
  const uint16_t h[] = {0x3f80};
  const auto written = WriteSafetensors(
      path_, {{"h", "BF16", {1}, h}, {"w", "F32", {2, 1}, w}, {"none", "U8", {0, 9}, nullptr}},
      {{"format", "pt"}});
  ASSERT_TRUE(written.ok()) << written.status();
  std::string json =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("h":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]},)"
      R"("none":{"dtype":"U8","shape":[0,9],"data_offsets":[10,10]}})";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string data(10, '\0');
  std::memcpy(data.data(), w, 8);
  std::memcpy(data.data() + 8, h, 2);
  EXPECT_EQ(Slurp(path_), File(json, data));

  const auto record = ChecksumFile(path_);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(*record, written->file);
  EXPECT_EQ(record->crc32c, Crc32c(Slurp(path_)));
}

TEST_F(SafetensorsTest, ReadsBackWhatWasWritten) {
  const float w[] = {1, 2, 3, 4, 5, 6};
  const int64_t step = 7;
  const auto written =
      WriteSafetensors(path_, {{"w", "F32", {2, 3}, w}, {"step", "I64", {}, &step}}, {});
  ASSERT_TRUE(written.ok());
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ(reader->header().tensors.size(), 2u);
  EXPECT_EQ(reader->header().tensors[0].name, "step");  // wider elements first
  EXPECT_EQ(written->tensors[1].offset, reader->Find("w")->offset);
  EXPECT_EQ(Bytes(*reader, "w"), std::string(reinterpret_cast<const char*>(w), sizeof(w)));
  EXPECT_EQ(Bytes(*reader, "step"), std::string(reinterpret_cast<const char*>(&step), 8));
  EXPECT_EQ(reader->Find("v"), nullptr);
}

TEST_F(SafetensorsTest, PaddedHeaderEmptyTensorsAndMetadataAreLegal) {
  Spill(path_, File(R"({"a":{"dtype":"U8","shape":[2,0],"data_offsets":[0,0]},)"
                    R"("__metadata__":{"k":"v"},)"
                    R"("b":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}   )",
                    "x"));
  const auto reader = SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->header().metadata.at("k"), "v");
  EXPECT_EQ(Bytes(*reader, "b"), "x");
}

TEST_F(SafetensorsTest, LyingLengthsAreRefused) {
  ExpectRefused("1234567", "file: found 7 bytes, expected at least 8");
  ExpectRefused(std::string(8, '\xff'),
                "header length at byte 0: found 18446744073709551615, expected at most 0");
  ExpectRefused(std::string("\x03\0\0\0\0\0\0\0{}", 10), "header length at byte 0: found 3");
  ExpectRefused(File("", ""), "header: found no '{'");
}

TEST_F(SafetensorsTest, MalformedHeadersAreRefused) {
  ExpectRefused(File(" {}", ""), "header: found no '{', expected '{' first");
  ExpectRefused(File("{", ""), "found 1 bytes that are not JSON");
  ExpectRefused(File("{\"\xff\":1}", ""), "found 7 bytes that are not JSON");
  ExpectRefused(File(R"({"a":1})", ""), "tensor a: value: found number, expected an object");
  ExpectRefused(File(R"({"__metadata__":{"k":1}})", ""), "__metadata__ k: found number");
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":1}})", "x"),
                "tensor a: field: found 'more', expected no such field");
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1]}})", "x"),
                "tensor a: data_offsets: found nothing");
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                     R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                     "x"),
                "found field 'a' twice");
  std::string deep = R"({"a":)";
  for (int i = 0; i < 100000; ++i) deep += '[';
  ExpectRefused(File(deep, ""), "found JSON nested deeper than 32 levels");
}

TEST_F(SafetensorsTest, TensorsThatDoNotFitAreRefused) {
  auto one = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
           offsets + "}}";
  };
  ExpectRefused(File(one("X9", "[1]", "[0,1]"), "x"), "tensor a: dtype: found 'X9'");
  ExpectRefused(File(one("U8", "[-1]", "[0,1]"), "x"), "tensor a: shape: found -1");
  ExpectRefused(File(one("U8", "[1.5]", "[0,1]"), "x"), "tensor a: shape: found 1.5");
  ExpectRefused(File(one("U8", "[2]", "[0,1]"), "x"),
                "tensor a: data_offsets: found 1 bytes, expected 2 as its shape and dtype say");
  ExpectRefused(File(one("U8", "[4294967296,4294967296]", "[0,0]"), ""),
                "tensor a: shape: found an extent of 4294967296, expected fewer than 2^63 bits");
  ExpectRefused(File(one("F4", "[3]", "[0,1]"), "x"), "tensor a: shape: found 12 bits");
  ExpectRefused(File(one("U8", "[1]", "[1,0]"), "x"), "tensor a: data_offsets: found 1, 0");
  ExpectRefused(File(one("U8", "[1]", "[0]"), "x"), "tensor a: data_offsets: found 1 numbers");
  ExpectRefused(File(one("U8", "[1]", "[1,2]"), "xy"),
                "tensor a: data_offsets: found a begin of 1, expected 0, without hole or overlap");
  ExpectRefused(File(one("U8", "[2]", "[0,2]"), "x"),
                "tensor a: data_offsets: found 2 bytes at 0, expected an end within the 1 bytes");
  ExpectRefused(File(one("U8", "[1]", "[0,1]"), "xy"), "file: found 63 bytes, expected 62");
}

TEST_F(SafetensorsTest, OverlapsAreRefused) {
  ExpectRefused(File(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                     "xyz"),
                "tensor b: data_offsets: found a begin of 1, expected 2");
}

TEST_F(SafetensorsTest, WriterRefusesBadTensors) {
  const char x = 1;
  absl::Status status =
      WriteSafetensors(path_, {{"a", "U8", {1}, &x}, {"a", "U8", {1}, &x}}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'a': found a name twice"));
  status = WriteSafetensors(path_, {{"a", "Q8", {1}, &x}}, {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor a: dtype: found 'Q8'"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsTest, FullDiskLeavesNoFile) {
  const std::string data(100000, 'x');
  FullDisk disk(50000);
  const absl::Status status =
      WriteSafetensors(path_, {{"a", "U8", {100000}, data.data()}}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("write " + path_));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SafetensorsTest, FileThatShrinksWhileOpenIsDataLoss) {
  const std::string data(1000, 'x');
  ASSERT_TRUE(WriteSafetensors(path_, {{"a", "U8", {1000}, data.data()}}, {}).ok());
  const auto reader = SafetensorsReader::Open(path_);
  std::filesystem::resize_file(path_, 500);
  std::string out(1000, '\0');
  const absl::Status status = reader->Read(*reader->Find("a"), 0, 1000, out.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found the end of the file at byte 500"));
}

TEST_F(SafetensorsTest, MutatedFilesGiveAStatusAndNeverCrash) {
  const float w[] = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(
      WriteSafetensors(path_, {{"w", "F32", {2, 3}, w}, {"u", "U8", {3}, w}}, {{"format", "pt"}})
          .ok());
  const std::string whole = Slurp(path_);
  std::mt19937_64 random(3);
  int opened = 0;
  for (int i = 0; i < 3000; ++i) {
    Spill(path_, Mutate(whole, &random));
    const auto reader = SafetensorsReader::Open(path_);
    if (!reader.ok()) continue;
    ++opened;
    for (const StoredTensor& tensor : reader->header().tensors) Bytes(*reader, tensor.name);
  }
  EXPECT_GT(opened, 20);
  EXPECT_LT(opened, 2000);
}

TEST_F(SafetensorsTest, DataIsFetchedOneTensorAfterTheOther) {
  std::string staging;  // one place for all, as of a device
  const auto fetch = [&](std::string bytes) {
    return TensorData([&staging, bytes]() -> absl::StatusOr<const void*> {
      staging = bytes;
      return staging.data();
    });
  };
  ASSERT_TRUE(
      WriteSafetensors(path_, {{"a", "U8", {3}, fetch("abc")}, {"b", "U8", {3}, fetch("xyz")}}, {})
          .ok());
  EXPECT_THAT(Slurp(path_), testing::EndsWith("abcxyz"));
}

TEST_F(SafetensorsTest, DataThatCannotBeFetchedLeavesNoFile) {
  const TensorData lost([]() -> absl::StatusOr<const void*> {
    return absl::InternalError("copy of a: cudaErrorIllegalAddress");
  });
  EXPECT_EQ(WriteSafetensors(path_, {{"a", "U8", {3}, lost}}, {}).status(),
            absl::InternalError("copy of a: cudaErrorIllegalAddress"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace stretto
