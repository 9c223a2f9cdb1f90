// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tuning/tunings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace stretto::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TuningKey KeyOf(int64_t tokens, int sms = 0) {
  return {.product = {.m = 4096,
                      .n = tokens,
                      .k = 1024,
                      .transpose_a = true,
                      .lda = 1024,
                      .ldb = 1024,
                      .ldd = 4096,
                      .in = DType::kBF16,
                      .out = DType::kBF16,
                      .bias = true},
          .sms = sms};
}
TuningKey Wgrad() {
  return {.product = {.m = 1024,
                      .n = 4096,
                      .k = 512,
                      .transpose_b = true,
                      .lda = 1024,
                      .ldb = 4096,
                      .ldd = 1024,
                      .in = DType::kBF16,
                      .accumulate = true,
                      .alignment = 4},
          .sms = 128};
}
Algorithm AlgorithmOf(uint64_t word, double microseconds = 93.5) {
  Algorithm algorithm{.workspace_bytes = 1 << 20, .microseconds = microseconds};
  algorithm.words = {word, 0xffffffffffffffff, 3, 4, 5, 6, 7, 8};
  return algorithm;
}
AttentionKey AttentionOf(int64_t length, bool backward = false) {
  return {.length = length,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .backward = backward,
          .library_version = 91900};
}
Tunings Empty() { return Tunings("NVIDIA H200", 130100); }
Tunings Filled() {
  Tunings tunings = Empty();
  tunings.Put(KeyOf(8192), AlgorithmOf(1));
  tunings.Put(KeyOf(0, 124), AlgorithmOf(2));
  tunings.Put(Wgrad(), AlgorithmOf(3, 1.0 / 3));
  tunings.Put(AttentionOf(2048), {.own = 310.5, .library = 240.5});
  tunings.Put(AttentionOf(2048, true), {.own = 0.25, .library = 1e6});
  return tunings;
}

TEST(TuningsTest, PrintsAndParsesBack) {
  Tunings parsed = Empty();
  ASSERT_TRUE(parsed.Parse(Filled().Print()).ok());
  EXPECT_EQ(parsed.Print(), Filled().Print());
  ASSERT_NE(parsed.Find(KeyOf(8192)), nullptr);
  EXPECT_EQ(*parsed.Find(KeyOf(8192)), AlgorithmOf(1));
  EXPECT_EQ(parsed.Find(KeyOf(8191)), nullptr);
  EXPECT_EQ(parsed.Find(KeyOf(8192, 124)), nullptr);
  ASSERT_NE(parsed.Find(AttentionOf(2048)), nullptr);
  EXPECT_EQ(*parsed.Find(AttentionOf(2048)), (AttentionTimes{.own = 310.5, .library = 240.5}));
  ASSERT_NE(parsed.Find(AttentionOf(2048, true)), nullptr);
  EXPECT_EQ(parsed.Find(AttentionOf(1024)), nullptr);
  AttentionKey newer = AttentionOf(2048);
  newer.library_version = 92000;
  EXPECT_EQ(parsed.Find(newer), nullptr);
}

TEST(TuningsTest, TextIsWhatTheHeaderShows) {
  Tunings tunings = Empty();
  tunings.Put(KeyOf(8192), AlgorithmOf(0x1f));
  tunings.Put(AttentionOf(2048), {.own = 310.5, .library = 240.5, .together = 4});
  EXPECT_EQ(tunings.Print(),
            "stretto tuning 4\n"
            "device NVIDIA H200\n"
            "library 130100\n"
            "tn m 4096 n 8192 k 1024 lda 1024 ldb 1024 ldd 4096 bf16 bf16 bias 1 beta 0 align 16 "
            "sms 0 us 93.5 limited 1 workspace 1048576 algorithm 000000000000001f ffffffffffffffff "
            "0000000000000003 0000000000000004 0000000000000005 0000000000000006 "
            "0000000000000007 0000000000000008\n"
            "attention length 2048 heads 32 kv_heads 8 head_dim 128 backward 0 repeatable 0 "
            "library 91900 "
            "own_us 310.5 library_us 240.5 together 4\n"
            "end 2\n");
}

TEST(TuningsTest, GuessesAreStoredOnlyWhereTheyAreToStay) {
  Tunings tunings = Empty();
  Algorithm guess = AlgorithmOf(1, 0);
  guess.stored = false;
  tunings.Put(KeyOf(8192), guess);
  EXPECT_EQ(tunings.Print(), Empty().Print());
  tunings.Put(KeyOf(8192), AlgorithmOf(1, 0));
  Tunings parsed = Empty();
  ASSERT_TRUE(parsed.Parse(tunings.Print()).ok());
  ASSERT_NE(parsed.Find(KeyOf(8192)), nullptr);
  EXPECT_EQ(*parsed.Find(KeyOf(8192)), AlgorithmOf(1, 0));
}

TEST(TuningsTest, WhatIsKnownHereIsKept) {
  Tunings tunings = Empty();
  tunings.Put(KeyOf(8192), AlgorithmOf(9));
  ASSERT_TRUE(tunings.Parse(Filled().Print()).ok());
  EXPECT_EQ(*tunings.Find(KeyOf(8192)), AlgorithmOf(9));
  EXPECT_NE(tunings.Find(Wgrad()), nullptr);
}

TEST(TuningsTest, AnotherDeviceOrVersionIsRefused) {
  const std::string text = Filled().Print();
  const absl::Status device = Tunings("NVIDIA H100", 130100).Parse(text);
  EXPECT_EQ(device.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(device.ToString(), AllOf(HasSubstr("found 'device NVIDIA H200'"),
                                       HasSubstr("expected 'device NVIDIA H100'")));
  const absl::Status version = Tunings("NVIDIA H200", 130000).Parse(text);
  EXPECT_EQ(version.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(version.ToString(), HasSubstr("expected 'library 130000'"));
}

TEST(TuningsTest, WrongLinesAreNamed) {
  const auto parse = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return Empty().Parse(text).ToString();
  };
  const std::string text = Filled().Print();
  EXPECT_THAT(parse(text, "tuning 4", "gemm tuning 1"),
              HasSubstr("line 1: found 'stretto gemm tuning 1', expected 'stretto tuning 4'"));
  EXPECT_THAT(parse(text, "tn m 4096 n 0", "tx m 4096 n 0"), HasSubstr("line 5"));
  EXPECT_THAT(parse(text, "nt m", "nt q"), HasSubstr("word 2 does not fit"));
  EXPECT_THAT(parse(text, "us 93.5", "us -1"), HasSubstr("does not fit"));
  EXPECT_THAT(parse(text, "us 93.5", "us nan"), HasSubstr("does not fit"));
  EXPECT_THAT(parse(text, "bf16 bf16", "bf16 f16"), HasSubstr("does not fit"));
  EXPECT_THAT(parse(text, "0000000000000003", "3"), HasSubstr("does not fit"));
  EXPECT_THAT(parse(text, "0000000000000008\n", "0000000000000008 9\n"), HasSubstr("does not fit"));
  EXPECT_THAT(parse(text, "attention length 2048", "attention length 0"),
              AllOf(HasSubstr("line 7"), HasSubstr("word 3 does not fit")));
  EXPECT_THAT(parse(text, "attention length", "attentive length"), HasSubstr("line 7"));
  EXPECT_THAT(parse(text, "own_us 310.5", "own_us 0"), HasSubstr("does not fit"));
  EXPECT_THAT(parse(text, " library_us 240.5", ""), HasSubstr("does not fit"));
  EXPECT_THAT(parse(text, "backward 1", "backward 2"), HasSubstr("line 8"));
  EXPECT_THAT(parse(text, "end 5", "end 4"), HasSubstr("expected 'end 5'"));
  EXPECT_THAT(parse(text, "end 5\n", ""), HasSubstr("line 9"));
}

// Every damaged file is refused or still means entries that Print writes; none is half taken.
TEST(TuningsTest, DamageIsAStatusAndChangesNothing) {
  std::mt19937 random(1);
  const std::string text = Filled().Print();
  int refused = 0;
  for (int run = 0; run < 2000; ++run) {
    std::string damaged = text;
    if (run % 3 == 0) {
      damaged.resize(random() % damaged.size());
    } else {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    Tunings tunings = Empty();
    if (tunings.Parse(damaged).ok()) {
      Tunings again = Empty();
      EXPECT_TRUE(again.Parse(tunings.Print()).ok());
    } else {
      EXPECT_EQ(tunings.Print(), Empty().Print());
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(TuningsTest, FilesOfManyDevicesAndVersionsShareAFolder) {
  EXPECT_EQ(Empty().FileName(), "tuning-NVIDIA_H200-130100.txt");
  EXPECT_EQ(Tunings("a/../b", 1).FileName(), "tuning-a_.._b-1.txt");
}

TEST(PinnedTest, ForgetsTokensAndSmLimit) {
  const PinnedTo to{.tokens = 512, .sms_left = 100};
  EXPECT_EQ(Pinned(KeyOf(8192, 124), to), KeyOf(512, 100));
  EXPECT_EQ(Pinned(KeyOf(4096, 0), to), KeyOf(512, 100));
  // Tokens are the inner dimension of a weight gradient: it is no slice of another.
  TuningKey longer = Wgrad();
  longer.product.k *= 2;
  EXPECT_NE(Pinned(longer, to), Pinned(Wgrad(), to));
  TuningKey wider = KeyOf(8192);
  wider.product.m += 1;
  EXPECT_NE(Pinned(wider, to), Pinned(KeyOf(8192), to));
}

TEST(FastestOfTest, TakesTheSmallestMedian) {
  EXPECT_EQ(FastestOf({{3, 3, 3}, {2, 2, 9}, {1, 5, 5}}), 1);
  EXPECT_EQ(MedianOf({9, 1, 5}), 5);
  EXPECT_EQ(MedianOf({1, 2}), 2);
}

TEST(FastestOfTest, KeepsTheEarlierOneWithinNoise) {
  EXPECT_EQ(FastestOf({{100}, {99.5}}), 0);
  EXPECT_EQ(FastestOf({{100}, {98.5}}), 1);
  EXPECT_EQ(FastestOf({{99.5}, {100}}), 0);
}

TEST(FastestOfTest, SkipsCandidatesThatFailed) {
  EXPECT_EQ(FastestOf({{}, {5}, {}}), 1);
  EXPECT_EQ(FastestOf({{}, {}}), -1);
  EXPECT_EQ(FastestOf({}), -1);
}

}  // namespace
}  // namespace stretto::cuda
