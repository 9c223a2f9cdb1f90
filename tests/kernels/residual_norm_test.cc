// SPDX-License-Identifier: Apache-2.0

// What follows an all-reduce, in one call: the bits of the two.
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using ResidualNormTest = OpsTest;
STRETTO_ALL_MODES(ResidualNormTest);

struct ResidualInputs {
  ResidualInputs(DType dtype, int64_t rows, int64_t columns)
      : r(dtype, rows, columns),
        x(dtype, rows, columns),
        bias(dtype, 1, columns),
        w(dtype, 1, columns),
        b(dtype, 1, columns) {
    r.Fill(1);
    x.Fill(2, 3);
    bias.Fill(3);
    w.Fill(4);
    b.Fill(5);
  }
  Tensor r, x, bias, w, b, keys = KeysOf(1, 2, 3, 4);
};

struct ResidualOutputs {
  ResidualOutputs(DType dtype, int64_t rows, int64_t columns)
      : sum(dtype, rows, columns), y(dtype, rows, columns), stats(DType::kF32, rows, 2) {}
  // One of the size of the inputs.
  explicit ResidualOutputs(ResidualInputs& in)
      : ResidualOutputs(in.x.view().dtype, in.x.view().rows(), in.x.view().columns()) {}
  auto bits() const { return std::tuple(sum.bytes(), y.bytes(), stats.bytes()); }
  Tensor sum, y, stats;
};

// Calls body(inputs, bias, dropout) for every form of the operation, also with rows of more than 32
// KiB, of which a device holds one and loads the others pack by pack.
void ForEveryForm(DType dtype,
                  const std::function<void(ResidualInputs&, TensorView, const Dropout&)>& body) {
  const int64_t long_row = dtype == DType::kBF16 ? 17000 : 9000;
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{70, 1}, {70, 44}, {70, 96}, {70, 1000}, {3, long_row}}) {
    for (const bool with_bias : {false, true}) {
      for (const int64_t threshold : {int64_t{0}, int64_t{1} << 30}) {
        SCOPED_TRACE(testing::Message()
                     << columns << " columns, bias " << with_bias << ", threshold " << threshold);
        ResidualInputs in(dtype, rows, columns);
        body(in, with_bias ? in.bias.view() : TensorView{}, {.threshold = threshold, .site = 2});
      }
    }
  }
}

TEST_P(ResidualNormTest, LayerNormHasTheBitsOfTheTwoCalls) {
  ForEveryForm(GetParam().dtype, [&](ResidualInputs& in, TensorView bias, const Dropout& dropout) {
    ResidualOutputs two(in), one = two;
    ops_->BiasResidual(in.r.view(), bias, in.x.view(), dropout, in.keys.view(), two.sum.view());
    ops_->LayerNorm(two.sum.view(), in.w.view(), in.b.view(), 0.25f, two.y.view(),
                    two.stats.view());
    ops_->BiasResidualLayerNorm(in.r.view(), bias, in.x.view(), dropout, in.keys.view(),
                                one.sum.view(), in.w.view(), in.b.view(), 0.25f, one.y.view(),
                                one.stats.view());
    EXPECT_EQ(one.bits(), two.bits());
  });
}

TEST_P(ResidualNormTest, RmsNormHasTheBitsOfTheTwoCalls) {
  ForEveryForm(GetParam().dtype, [&](ResidualInputs& in, TensorView bias, const Dropout& dropout) {
    ResidualOutputs two(in), one = two;
    const auto rstd = [](ResidualOutputs& out) {
      TensorView view = out.stats.view();
      view.shape = {out.stats.view().rows(), 1, 1, 1};
      return view;
    };
    ops_->BiasResidual(in.r.view(), bias, in.x.view(), dropout, in.keys.view(), two.sum.view());
    ops_->RmsNorm(two.sum.view(), in.w.view(), 0.25f, two.y.view(), rstd(two));
    ops_->BiasResidualRmsNorm(in.r.view(), bias, in.x.view(), dropout, in.keys.view(),
                              one.sum.view(), in.w.view(), 0.25f, one.y.view(), rstd(one));
    EXPECT_EQ(one.bits(), two.bits());
  });
}

TEST_P(ResidualNormTest, ABlockedBranchHasTheBitsOfThePlainOne) {
  for (const int64_t columns : {84, 96}) {
    ResidualInputs in(GetParam().dtype, 70, columns);
    const Dropout dropout{.threshold = 1 << 30, .site = 2};
    const auto run = [&](TensorView r) {
      ResidualOutputs out(in);
      ops_->BiasResidualLayerNorm(r, in.bias.view(), in.x.view(), dropout, in.keys.view(),
                                  out.sum.view(), in.w.view(), in.b.view(), kNormEpsilon,
                                  out.y.view(), out.stats.view());
      return out.bits();
    };
    const auto plain = run(in.r.view());
    for (const int64_t pieces : {2, 3, 4}) {
      Tensor blocked = in.r.Blocked(pieces);
      EXPECT_EQ(run(blocked.BlockedView(pieces)), plain) << pieces;
    }
  }
}

}  // namespace
}  // namespace stretto
