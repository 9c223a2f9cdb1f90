// SPDX-License-Identifier: Apache-2.0

// Blocked operands give the bits of the plain layout.
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using BlockedTest = OpsTest;
STRETTO_ALL_MODES(BlockedTest);

// Widths of the pieces that are no multiple of a vector, and that are.
constexpr int64_t kBlockedRows = 7, kWidths[] = {84, 96};
constexpr int64_t kPieces[] = {1, 2, 3, 4};

TEST_P(BlockedTest, BiasResidual) {
  for (const int64_t columns : kWidths) {
    Tensor r = Of(kBlockedRows, columns).Fill(1), bias = Of(1, columns).Fill(2);
    Tensor x = Of(kBlockedRows, columns).Fill(3), plain = Of(kBlockedRows, columns),
           y = Of(kBlockedRows, columns);
    Tensor keys = KeysOf(1, 2, 3, 4);
    for (const int64_t threshold : {int64_t{0}, int64_t{1} << 31}) {
      const Dropout dropout{.threshold = threshold, .site = 5};
      ops_->BiasResidual(r.view(), bias.view(), x.view(), dropout, keys.view(), plain.view());
      for (const int64_t pieces : kPieces) {
        Tensor blocked = r.Blocked(pieces);
        y.Poison();
        ops_->BiasResidual(blocked.BlockedView(pieces), bias.view(), x.view(), dropout, keys.view(),
                           y.view());
        EXPECT_EQ(y.bytes(), plain.bytes()) << pieces;
      }
    }
  }
}

TEST_P(BlockedTest, LayerNormGradients) {
  for (const int64_t columns : kWidths) {
    Tensor dy = Of(kBlockedRows, columns).Fill(1), x = Of(kBlockedRows, columns).Fill(2, 3);
    Tensor w = Of(1, columns).Fill(3), y = Of(kBlockedRows, columns), stats = F32(kBlockedRows, 2);
    ops_->LayerNorm(x.view(), w.view(), w.view(), kNormEpsilon, y.view(), stats.view());
    Tensor dx = Of(kBlockedRows, columns), dw = F32(2, columns);
    dw.Zero();
    ops_->LayerNormDgrad(dy.view(), x.view(), w.view(), stats.view(), y.view(), dx.view());
    ops_->LayerNormWgrad(dy.view(), x.view(), stats.view(), dw.Rows(0, 1), dw.Rows(1, 1));
    for (const int64_t pieces : kPieces) {
      Tensor blocked = dy.Blocked(pieces), other = Of(kBlockedRows, columns),
             other_dw = F32(2, columns);
      other_dw.Zero();
      ops_->LayerNormDgrad(blocked.BlockedView(pieces), x.view(), w.view(), stats.view(), y.view(),
                           other.view());
      ops_->LayerNormWgrad(blocked.BlockedView(pieces), x.view(), stats.view(), other_dw.Rows(0, 1),
                           other_dw.Rows(1, 1));
      EXPECT_EQ(other.bytes(), dx.bytes()) << pieces;
      EXPECT_EQ(other_dw.bytes(), dw.bytes()) << pieces;
    }
  }
}

TEST_P(BlockedTest, RmsNormGradients) {
  for (const int64_t columns : kWidths) {
    Tensor dy = Of(kBlockedRows, columns).Fill(1), x = Of(kBlockedRows, columns).Fill(2, 3);
    Tensor w = Of(1, columns).Fill(3), y = Of(kBlockedRows, columns), rstd = F32(kBlockedRows, 1);
    ops_->RmsNorm(x.view(), w.view(), kNormEpsilon, y.view(), rstd.view());
    Tensor dx = Of(kBlockedRows, columns), dw = F32(1, columns);
    dw.Zero();
    ops_->RmsNormDgrad(dy.view(), x.view(), w.view(), rstd.view(), {}, dx.view());
    ops_->RmsNormWgrad(dy.view(), x.view(), rstd.view(), dw.view());
    for (const int64_t pieces : kPieces) {
      Tensor blocked = dy.Blocked(pieces), other = Of(kBlockedRows, columns),
             other_dw = F32(1, columns);
      other_dw.Zero();
      ops_->RmsNormDgrad(blocked.BlockedView(pieces), x.view(), w.view(), rstd.view(), {},
                         other.view());
      ops_->RmsNormWgrad(blocked.BlockedView(pieces), x.view(), rstd.view(), other_dw.view());
      EXPECT_EQ(other.bytes(), dx.bytes()) << pieces;
      EXPECT_EQ(other_dw.bytes(), dw.bytes()) << pieces;
    }
  }
}

}  // namespace
}  // namespace stretto
