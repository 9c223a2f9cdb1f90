// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/target.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using CrossEntropyTest = OpsTest;
STRETTO_ALL_MODES(CrossEntropyTest);

// Two ranks with 24 columns each; 30 tokens are real, so the second rank has 18 columns of padding.
constexpr int64_t kTokens = 7, kPart = 24, kReal = 30;
constexpr double kWeight = 0.25;

struct Part {
  VocabShard vocab;
  Tensor logits, max, sums;
};

class TwoRanks {
 public:
  explicit TwoRanks(DType dtype)
      : targets_(DType::kI32, kTokens, 1), scalars_(DType::kF32, 1, kScalarCount) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      parts_.push_back({{.start = rank * kPart, .size = kReal},
                        Tensor(dtype, kTokens, kPart),
                        Tensor(DType::kF32, kTokens, 1),
                        Tensor(DType::kF32, kTokens, 2)});
      parts_.back().logits.Fill(static_cast<uint32_t>(rank) + 1, 5);
    }
    for (int64_t i = kReal - kPart; i < kPart; ++i)
      parts_[1].logits.Set(kPart + i, 1e30);  // padding
    for (int64_t row = 0; row < kTokens; ++row)
      targets_.Set(row, static_cast<double>(row * 29 % kReal));
    scalars_.Set(kLossWeight, kWeight);
  }

  // As the ranks do: local maxima, exchange, local sums, exchange.
  void RunTo(Ops& ops, Tensor* loss) {
    for (Part& part : parts_) ops.CrossEntropyMax(part.logits.view(), part.vocab, part.max.view());
    for (int64_t row = 0; row < kTokens; ++row) {
      const double max = std::max(parts_[0].max.At(row), parts_[1].max.At(row));
      for (Part& part : parts_) part.max.Set(row, max);
    }
    for (Part& part : parts_) {
      ops.CrossEntropySum(part.logits.view(), part.max.view(), targets_.view(), part.vocab,
                          part.sums.view());
    }
    for (int64_t i = 0; i < 2 * kTokens; ++i) {
      const double sum = parts_[0].sums.At(i) + parts_[1].sums.At(i);
      for (Part& part : parts_) part.sums.Set(i, sum);
    }
    ops.CrossEntropyLoss(parts_[0].sums.view(), loss->view());
  }

  Doubles RealLogits() const {
    Doubles all;
    for (int64_t row = 0; row < kTokens; ++row) {
      for (int64_t i = 0; i < kReal; ++i) {
        all.push_back(parts_[static_cast<size_t>(i / kPart)].logits.At(row * kPart + i % kPart));
      }
    }
    return all;
  }
  Doubles Losses(const Doubles& logits) const {
    Doubles losses;
    for (int64_t row = 0; row < kTokens; ++row) {
      const double* x = &logits[static_cast<size_t>(row * kReal)];
      double sum = 0;
      for (int64_t i = 0; i < kReal; ++i) sum += std::exp(x[i]);
      losses.push_back(std::log(sum) - x[static_cast<int64_t>(targets_.At(row))]);
    }
    return losses;
  }

  std::vector<Part> parts_;
  Tensor targets_, scalars_;
};

TEST_P(CrossEntropyTest, LossOverTwoRanksMatchesTheReference) {
  TwoRanks ranks(GetParam().dtype);
  Tensor loss = F32(kTokens, 1);
  const Doubles want = ranks.Losses(ranks.RealLogits());
  ranks.RunTo(*ops_, &loss);
  ExpectNear(loss, want);
}

TEST_P(CrossEntropyTest, GradientMatchesFiniteDifferencesAndPaddingGetsZero) {
  TwoRanks ranks(GetParam().dtype);
  Tensor loss = F32(kTokens, 1);
  ranks.RunTo(*ops_, &loss);
  Doubles logits = ranks.RealLogits();
  const Doubles weights(kTokens, kWeight);
  const Doubles want = Differences([&] { return Dot(ranks.Losses(logits), weights); }, &logits);
  for (Part& part : ranks.parts_) {
    ops_->CrossEntropyGrad(part.max.view(), part.sums.view(), ranks.targets_.view(),
                           ranks.scalars_.view(), part.vocab, part.logits.view());
  }
  const Doubles got = ranks.RealLogits();
  Tensor rounded = Of(kTokens, kReal);
  for (size_t i = 0; i < got.size(); ++i) rounded.Set(static_cast<int64_t>(i), got[i]);
  ExpectNear(rounded, want);
  for (int64_t row = 0; row < kTokens; ++row) {
    for (int64_t i = kReal - kPart; i < kPart; ++i) {
      EXPECT_EQ(ranks.parts_[1].logits.At(row * kPart + i), 0.0);
    }
  }
}

TEST_P(CrossEntropyTest, RowsWithoutATargetHaveNoLossAndNoGradient) {
  TwoRanks ranks(GetParam().dtype), whole(GetParam().dtype);
  const std::vector<int64_t> masked = {0, 3, kTokens - 1};
  const auto is_masked = [&](int64_t row) {
    return std::find(masked.begin(), masked.end(), row) != masked.end();
  };
  for (int64_t row : masked) ranks.targets_.Set(row, kNoTarget);
  Tensor loss = F32(kTokens, 1), whole_loss = F32(kTokens, 1);
  const auto run = [&](TwoRanks& of, Tensor* to) {
    of.RunTo(*ops_, to);
    for (Part& part : of.parts_) {
      ops_->CrossEntropyGrad(part.max.view(), part.sums.view(), of.targets_.view(),
                             of.scalars_.view(), part.vocab, part.logits.view());
    }
  };
  run(ranks, &loss);
  run(whole, &whole_loss);
  for (int64_t row = 0; row < kTokens; ++row) {
    EXPECT_EQ(loss.At(row), is_masked(row) ? 0.0 : whole_loss.At(row)) << row;
    for (size_t rank = 0; rank < 2; ++rank) {
      for (int64_t i = row * kPart; i < (row + 1) * kPart; ++i) {
        EXPECT_EQ(ranks.parts_[rank].logits.At(i),
                  is_masked(row) ? 0.0 : whole.parts_[rank].logits.At(i));
      }
    }
  }
}

TEST_P(CrossEntropyTest, RankWithPaddingOnlyHasNoMaximumAndNoSum) {
  const VocabShard vocab{.start = 48, .size = kReal};
  Tensor logits = Of(kTokens, kPart).Fill(1), max = F32(kTokens, 1), sums = F32(kTokens, 2),
         targets = Index(kTokens);
  targets.Zero();
  ops_->CrossEntropyMax(logits.view(), vocab, max.view());
  EXPECT_EQ(max.At(0), -std::numeric_limits<double>::infinity());
  for (int64_t row = 0; row < kTokens; ++row) max.Set(row, 1);
  ops_->CrossEntropySum(logits.view(), max.view(), targets.view(), vocab, sums.view());
  for (int64_t i = 0; i < sums.count(); ++i) EXPECT_EQ(sums.At(i), 0.0);
}

TEST_P(CrossEntropyTest, NanLogitMakesTheLossOfItsRowNan) {
  TwoRanks ranks(GetParam().dtype);
  ranks.parts_[0].logits.Set(2 * kPart + 5, std::nan(""));
  Tensor loss = F32(kTokens, 1);
  ranks.RunTo(*ops_, &loss);
  EXPECT_TRUE(std::isnan(loss.At(2)));
  EXPECT_FALSE(std::isnan(loss.At(1)));
}

}  // namespace
}  // namespace stretto
