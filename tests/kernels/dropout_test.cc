// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/philox.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

// Known answers of Random123 1.09, tests/kat_vectors.
TEST(PhiloxTest, ReferenceGivesTheKnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, 0, 0),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

using DropoutTest = OpsTest;
STRETTO_ALL_MODES(DropoutTest);

constexpr int64_t kDroppedRows = 37, kDroppedColumns = 54;
constexpr int64_t kOneInFour = int64_t{1} << 30;

// What ops.h says of element (row, column): 0 or the scale.
double Factor(const Dropout& dropout, int64_t row, int64_t column) {
  const PhiloxWords words = Philox(
      {static_cast<uint32_t>(column / 4), static_cast<uint32_t>(1000 + dropout.first_token + row),
       static_cast<uint32_t>(dropout.site), 7},
      11, 22);
  return words[static_cast<size_t>(column % 4)] < dropout.threshold ? 0 : dropout.scale();
}

Tensor Keys() { return KeysOf(11, 22, 7, 1000); }

TEST_P(DropoutTest, ElementsAreDroppedByTheirDrawAndScaledOtherwise) {
  const Dropout dropout{.threshold = kOneInFour, .site = 3, .first_token = 5};
  EXPECT_FLOAT_EQ(dropout.scale(), 4.0f / 3.0f);
  Tensor x = Of(kDroppedRows, kDroppedColumns).Fill(1), y = Of(kDroppedRows, kDroppedColumns),
         keys = Keys();
  Doubles want;
  for (int64_t i = 0; i < x.count(); ++i)
    want.push_back(x.At(i) * Factor(dropout, i / kDroppedColumns, i % kDroppedColumns));
  ops_->DropElements(x.view(), dropout, keys.view(), y.view());
  ExpectNear(y, want, 1e-6);
  ops_->DropElements(x.view(), dropout, keys.view(), x.view());  // y may be x
  EXPECT_EQ(x.bytes(), y.bytes());
}

// Key and counter 0 give four known words: each is kept by a threshold of its size and dropped by
// the next.
TEST_P(DropoutTest, DrawsAreThePublishedOnes) {
  const PhiloxWords words = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  Tensor keys = KeysOf(0, 0, 0, 0);
  for (int64_t column = 0; column < 4; ++column) {
    for (const int64_t above : {0, 1}) {
      const int64_t threshold = words[static_cast<size_t>(column)] + above;
      Tensor x = Of(1, 4).Fill(1), y = Of(1, 4);
      ops_->DropElements(x.view(), {.threshold = threshold}, keys.view(), y.view());
      EXPECT_EQ(y.At(column) == 0, above == 1) << column;
    }
  }
}

TEST_P(DropoutTest, OffCopies) {
  Tensor x = Of(kDroppedRows, kDroppedColumns).Fill(1), y = Of(kDroppedRows, kDroppedColumns);
  ops_->DropElements(x.view(), {}, {}, y.view());
  EXPECT_EQ(x.bytes(), y.bytes());
}

// 100,000 draws of probability p: a standard deviation is sqrt(p (1 - p) / 1e5), at most 0.0016.
TEST_P(DropoutTest, TheRateIsTheProbability) {
  for (const double p : {0.1, 0.25, 0.9}) {
    const Dropout dropout{.threshold = static_cast<int64_t>(p * 4294967296.0), .site = 1};
    Tensor x = Of(1000, 100), keys = Keys();
    for (int64_t i = 0; i < x.count(); ++i) x.Set(i, 1);
    ops_->DropElements(x.view(), dropout, keys.view(), x.view());
    int64_t dropped = 0;
    double kept = 0;
    for (int64_t i = 0; i < x.count(); ++i) {
      dropped += x.At(i) == 0;
      kept = std::max(kept, x.At(i));
    }
    EXPECT_NEAR(static_cast<double>(dropped) / 1e5, p, 5 * std::sqrt(p * (1 - p) / 1e5));
    EXPECT_NEAR(kept * (1 - p), 1, x.dtype() == DType::kBF16 ? 1.0 / 256 : 1e-6);
  }
}

TEST_P(DropoutTest, SeedStepSiteAndTokenChangeTheDraws) {
  const auto drop = [&](Tensor keys, const Dropout& dropout) {
    Tensor x = Of(kDroppedRows, kDroppedColumns).Fill(1);
    ops_->DropElements(x.view(), dropout, keys.view(), x.view());
    return x.bytes();
  };
  const Dropout dropout{.threshold = kOneInFour, .site = 3, .first_token = 5};
  const auto first = drop(KeysOf(1, 2, 3, 4), dropout);
  EXPECT_EQ(drop(KeysOf(1, 2, 3, 4), dropout), first);
  EXPECT_EQ(drop(KeysOf(1, 2, 3, 9), {.threshold = kOneInFour, .site = 3, .first_token = 0}),
            first);
  EXPECT_NE(drop(KeysOf(9, 2, 3, 4), dropout), first);
  EXPECT_NE(drop(KeysOf(1, 9, 3, 4), dropout), first);
  EXPECT_NE(drop(KeysOf(1, 2, 9, 4), dropout), first);
  EXPECT_NE(drop(KeysOf(1, 2, 3, 9), dropout), first);
  EXPECT_NE(drop(KeysOf(1, 2, 3, 4), {.threshold = kOneInFour, .site = 4, .first_token = 5}),
            first);
}

TEST_P(DropoutTest, BiasResidualDropsTheBranchAndNotTheResidual) {
  const Dropout dropout{.threshold = kOneInFour, .site = 9};
  Tensor r = Of(kDroppedRows, kDroppedColumns).Fill(1), bias = Of(1, kDroppedColumns).Fill(2),
         keys = Keys();
  Tensor x = Of(kDroppedRows, kDroppedColumns).Fill(3), y = Of(kDroppedRows, kDroppedColumns);
  Doubles with_bias, without;
  for (int64_t i = 0; i < x.count(); ++i) {
    const double factor = Factor(dropout, i / kDroppedColumns, i % kDroppedColumns);
    with_bias.push_back(x.At(i) + factor * (r.At(i) + bias.At(i % kDroppedColumns)));
    without.push_back(x.At(i) + factor * r.At(i));
  }
  ops_->BiasResidual(r.view(), bias.view(), x.view(), dropout, keys.view(), y.view());
  ExpectNear(y, with_bias);
  ops_->BiasResidual(r.view(), {}, x.view(), dropout, keys.view(), y.view());
  ExpectNear(y, without);
}

// DropElements of dy is the gradient of r in BiasResidual.
TEST_P(DropoutTest, ItsOwnGradientMatchesFiniteDifferences) {
  const Dropout dropout{.threshold = kOneInFour, .site = 9};
  Tensor r = Of(3, kDroppedColumns).Fill(1), dy = Of(3, kDroppedColumns).Fill(2), keys = Keys();
  Doubles rs = r.doubles();
  const Doubles dys = dy.doubles();
  const auto loss = [&] {
    double sum = 0;
    for (size_t i = 0; i < rs.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      sum += dys[i] * rs[i] * Factor(dropout, at / kDroppedColumns, at % kDroppedColumns);
    }
    return sum;
  };
  ops_->DropElements(dy.view(), dropout, keys.view(), dy.view());
  ExpectNear(dy, Differences(loss, &rs));
}

// A slice draws what the whole draws, when it says where it starts.
TEST_P(DropoutTest, SlicesGiveTheBitsOfTheWhole) {
  const Dropout dropout{.threshold = kOneInFour, .site = 9};
  Tensor r = Of(kDroppedRows, kDroppedColumns).Fill(1), bias = Of(1, kDroppedColumns).Fill(2),
         keys = Keys();
  Tensor x = Of(kDroppedRows, kDroppedColumns).Fill(3), y = Of(kDroppedRows, kDroppedColumns),
         sliced = Of(kDroppedRows, kDroppedColumns);
  ops_->BiasResidual(r.view(), bias.view(), x.view(), dropout, keys.view(), y.view());
  for (const int64_t rows : {1, 5, 36}) {
    sliced.Poison();
    for (int64_t first = 0; first < kDroppedRows; first += rows) {
      const int64_t count = std::min(rows, kDroppedRows - first);
      Dropout part = dropout;
      part.first_token = first;
      ops_->BiasResidual(r.Rows(first, count), bias.view(), x.Rows(first, count), part, keys.view(),
                         sliced.Rows(first, count));
    }
    EXPECT_EQ(y.bytes(), sliced.bytes()) << rows;
  }
}

TEST(DropoutDeathTest, KeysThatAreMissingAreOurBug) {
  Tensor x(DType::kF32, 4, 8);
  EXPECT_DEATH(MakeCpuOps()->DropElements(x.view(), {.threshold = 1}, {}, x.view()),
               "CHECK failed: keys");
}

}  // namespace
}  // namespace stretto
