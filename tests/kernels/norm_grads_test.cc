// SPDX-License-Identifier: Apache-2.0

// Both gradients of a norm in one call: the bits of the two.
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using NormGradsTest = OpsTest;
STRETTO_ALL_MODES(NormGradsTest);

struct Inputs {
  Inputs(DType dtype, int64_t rows, int64_t columns)
      : dy(dtype, rows, columns),
        x(dtype, rows, columns),
        residual(dtype, rows, columns),
        w(dtype, 1, columns),
        stats(DType::kF32, rows, 2) {
    dy.Fill(1);
    x.Fill(2, 3);
    residual.Fill(3);
    w.Fill(4);
    stats.Fill(5);
  }
  TensorView rstd() {
    TensorView view = stats.view();
    view.shape = {x.view().rows(), 1, 1, 1};
    view.rank = 1;
    return view;
  }
  Tensor dy, x, residual, w, stats;
};

struct Outputs {
  // Gradients of weights are added to what is there.
  Outputs(DType dtype, int64_t rows, int64_t columns)
      : dx(dtype, rows, columns), dw(DType::kF32, 1, columns), db(DType::kF32, 1, columns) {
    dw.Fill(6);
    db.Fill(7);
  }
  auto bits() const { return std::tuple(dx.bytes(), dw.bytes(), db.bytes()); }
  Tensor dx, dw, db;
};

// Calls body(inputs, dy, residual) for rows that a block can hold and for longer ones, for more
// parts of rows than blocks and for one, for blocked and plain dy.
void ForEveryForm(DType dtype, const std::function<void(Inputs&, TensorView, TensorView)>& body) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{1, 1}, {70, 44}, {70, 96}, {1100, 8}, {5, 1000}, {3, 9000}}) {
    for (const int64_t pieces : {1, 2}) {
      if (columns % pieces != 0) continue;
      for (const bool with_residual : {false, true}) {
        SCOPED_TRACE(testing::Message() << rows << " rows of " << columns << ", " << pieces
                                        << " pieces, residual " << with_residual);
        Inputs in(dtype, rows, columns);
        Tensor blocked = in.dy.Blocked(pieces);
        body(in, pieces == 1 ? in.dy.view() : blocked.BlockedView(pieces),
             with_residual ? in.residual.view() : TensorView{});
      }
    }
  }
}

TEST_P(NormGradsTest, LayerNormHasTheBitsOfTheTwoCalls) {
  ForEveryForm(GetParam().dtype, [&](Inputs& in, TensorView dy, TensorView residual) {
    const TensorView x = in.x.view(), w = in.w.view(), stats = in.stats.view();
    Outputs two(GetParam().dtype, x.rows(), x.columns()), one = two;
    ops_->LayerNormDgrad(dy, x, w, stats, residual, two.dx.view());
    ops_->LayerNormWgrad(dy, x, stats, two.dw.view(), two.db.view());
    ops_->LayerNormGrads(dy, x, w, stats, residual, one.dx.view(), one.dw.view(), one.db.view());
    EXPECT_EQ(one.bits(), two.bits());
  });
}

TEST_P(NormGradsTest, RmsNormHasTheBitsOfTheTwoCalls) {
  ForEveryForm(GetParam().dtype, [&](Inputs& in, TensorView dy, TensorView residual) {
    const TensorView x = in.x.view(), w = in.w.view(), rstd = in.rstd();
    Outputs two(GetParam().dtype, x.rows(), x.columns()), one = two;
    ops_->RmsNormDgrad(dy, x, w, rstd, residual, two.dx.view());
    ops_->RmsNormWgrad(dy, x, rstd, two.dw.view());
    ops_->RmsNormGrads(dy, x, w, rstd, residual, one.dx.view(), one.dw.view());
    EXPECT_EQ(one.bits(), two.bits());
  });
}

// The gradient of the input may take the place of the residual's, also where the residual's is
// loaded while that of the input is stored already: in rows of more than 32 KiB.
TEST_P(NormGradsTest, InPlaceHasTheSameBits) {
  const DType dtype = GetParam().dtype;
  const int64_t long_row = dtype == DType::kBF16 ? 17000 : 9000;
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{70, 96}, {3, long_row}}) {
    Inputs in(dtype, rows, columns);
    Outputs apart(dtype, rows, columns), in_place = apart;
    in_place.dx = in.residual;
    const auto run = [&](TensorView residual, Outputs& out) {
      ops_->LayerNormGrads(in.dy.view(), in.x.view(), in.w.view(), in.stats.view(), residual,
                           out.dx.view(), out.dw.view(), out.db.view());
    };
    run(in.residual.view(), apart);
    run(in_place.dx.view(), in_place);
    EXPECT_EQ(in_place.bits(), apart.bits()) << columns;
  }
}

}  // namespace
}  // namespace stretto
