// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/llmc_source.h"

#include <sys/stat.h>

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/golden_models.h"
#include "tests/worker/mutate.h"

namespace stretto {
namespace {

using testing::HasSubstr;

TEST(LlmcSourceTest, ModelIsThatOfTheHeader) {
  const auto opened = OpenGolden("llmc:llmc_f32/model.bin");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const ModelSpec& model = (*opened)->model();
  EXPECT_EQ(model.architecture.family, Family::kGpt);
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.hidden, 40);
  EXPECT_EQ(model.heads, 4);
  EXPECT_EQ(model.ffn_hidden, 160);
  EXPECT_EQ(model.sequence_length, 32);
  EXPECT_EQ(model.vocab_size, 131);
  EXPECT_EQ(model.norm_epsilon, 1e-5);
  EXPECT_TRUE(model.head_is_tied());
  EXPECT_EQ((*opened)->dtype(), "F32");
  EXPECT_TRUE((*opened)->tokenizer_files().empty());
}

// The same model was written in both formats, by others.
TEST(LlmcSourceTest, ParametersAreThoseOfTheSameModelOfHuggingFace) {
  EXPECT_EQ(ParametersIn(**OpenGolden("llmc:llmc_f32/model.bin")),
            ParametersIn(**OpenGolden("hf:gpt2_prefixed")));
}

TEST(LlmcSourceTest, Bf16IsTheSameModelRounded) {
  const auto rounded = OpenGolden("llmc:llmc_bf16/model.bin");
  ASSERT_TRUE(rounded.ok()) << rounded.status();
  EXPECT_EQ((*rounded)->dtype(), "BF16");
  const auto found = ParametersIn(**rounded);
  const auto expected = ParametersIn(**OpenGolden("hf:gpt2_prefixed"));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    for (size_t i = 0; i < values.size(); ++i) {
      // To the nearest of 8 bits, ties to even.
      uint32_t bits;
      std::memcpy(&bits, &values[i], 4);
      bits += 0x7fff + (bits >> 16 & 1);
      ASSERT_EQ(found.at(name)[i], FloatOfBf16(static_cast<uint16_t>(bits >> 16))) << name;
    }
  }
}

TEST(LlmcSourceTest, ShardsOfTwoRanksAreSlices) {
  const auto llmc = *OpenGolden("llmc:llmc_f32/model.bin");
  const auto hf = *OpenGolden("hf:gpt2_prefixed");
  for (GroupRank rank : IdRange<GroupRank>(2)) {
    for (const Parameter& shard : ParametersOf(llmc->model(), 2, rank)) {
      EXPECT_EQ(ReadBox(*llmc, shard), ReadBox(*hf, shard)) << shard.name;
    }
  }
}

class BadLlmcTest : public testing::Test {
 protected:
  BadLlmcTest() : file_(Slurp(GoldenModels() + "/llmc_bf16/model.bin")) {}
  std::string Error() {
    Spill(folder_ / "m.bin", file_);
    const auto opened = OpenModel("llmc:" + (folder_ / "m.bin"));
    EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
    return std::string(opened.status().message());
  }
  void SetField(size_t index, int32_t value) { std::memcpy(file_.data() + 4 * index, &value, 4); }

  std::string file_;
  TestFolder folder_;
};

TEST_F(BadLlmcTest, HeaderFieldsAreNamed) {
  const struct {
    size_t index;
    int32_t value;
    const char* said;
  } bad[] = {
      {0, 20240520, "magic: found 20240520, expected 20240326"},
      {1, 2, "version: found 2, expected 3 (f32) or 5 (bf16)"},
      {2, 0, "max_seq_len: found 0, expected 1 to 1048576"},
      {3, -5, "vocab_size: found -5"},
      {4, 257, "num_layers: found 257, expected 1 to 256"},
      {5, 3, "num_heads: found 3, expected a divisor of channels 40"},
      {6, 1 << 30, "channels: found 1073741824"},
      {7, 131, "padded_vocab_size: found 131, expected 256"},
      {7, 0, "padded_vocab_size: found 0"},
      {2, 33, "size: found 103104, expected 103184 bytes as its header says"},
      {1, 3, "size: found 103104, expected 205184"},
  };
  const std::string whole = file_;
  for (const auto& [index, value, said] : bad) {
    file_ = whole;
    SetField(index, value);
    EXPECT_THAT(Error(), HasSubstr((folder_ / "m.bin") + ": " + said));
  }
}

TEST_F(BadLlmcTest, OtherSizesAreRefused) {
  const std::string whole = file_;
  file_ = whole.substr(0, whole.size() - 2);
  EXPECT_THAT(Error(), HasSubstr("size: found 103102, expected 103104"));
  file_ = whole + "x";
  EXPECT_THAT(Error(), HasSubstr("size: found 103105"));
  file_ = whole.substr(0, 1023);
  EXPECT_THAT(Error(), HasSubstr("size: found 1023, expected a regular file of at least 1024"));
  file_ = "";
  EXPECT_THAT(Error(), HasSubstr("size: found 0"));
}

// It would take gigabytes to lay out, head by head.
TEST_F(BadLlmcTest, TooManyHeadsAreRefused) {
  SetField(4, 256);
  SetField(5, 65536);
  SetField(6, 65536);
  EXPECT_THAT(Error(), HasSubstr("num_heads: found 65536, expected 1 to 1024"));
}

TEST_F(BadLlmcTest, APipeIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((folder_ / "m.bin").c_str(), 0600), 0);
  const auto opened = OpenModel("llmc:" + (folder_ / "m.bin"));
  EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
}

TEST_F(BadLlmcTest, FolderAndMissingFileAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(OpenModel("llmc:" + folder_.path()).status()));
  const auto missing = OpenModel("llmc:" + (folder_ / "none.bin"));
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("none.bin"));
}

TEST_F(BadLlmcTest, DamagedHeadersOpenOrAreRefused) {
  const std::string header = file_.substr(0, 32), rest = file_.substr(32);
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    Spill(folder_ / "m.bin", Mutate(header, &random) + rest);
    const auto opened = OpenModel("llmc:" + (folder_ / "m.bin"));
    if (opened.ok()) ParametersIn(**opened);
  }
}

TEST(OpenModelTest, NamesWithoutAPathAreRefused) {
  for (const char* name : {"", "hf:", "llmc:"}) {
    const auto opened = OpenModel(name);
    ASSERT_TRUE(absl::IsInvalidArgument(opened.status())) << name;
    EXPECT_THAT(std::string(opened.status().message()),
                HasSubstr("expected hf:FOLDER, llmc:FILE or the folder of a checkpoint"));
  }
}

TEST(WidenTest, EveryF16IsExact) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), sign = (bits & 0x8000) != 0 ? -1 : 1;
    const double fraction = bits & 1023;
    const float value = FloatOfF16(static_cast<uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
      EXPECT_EQ(std::signbit(value), sign < 0);
      continue;
    }
    const double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(value, sign * expected) << bits;
    ASSERT_EQ(std::signbit(value), sign < 0) << bits;
  }
}

TEST(WidenTest, Bf16IsTheUpperHalf) {
  EXPECT_EQ(FloatOfBf16(0x3f80), 1.0f);
  EXPECT_EQ(FloatOfBf16(0xc049), -3.140625f);
}

}  // namespace
}  // namespace stretto
