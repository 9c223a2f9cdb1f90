// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using RmsNormTest = OpsTest;
STRETTO_ALL_MODES(RmsNormTest);

constexpr int64_t kNormRows = 6, kNormColumns = 37;

Doubles Reference(const Doubles& x, const Doubles& w, double epsilon = 1e-5) {
  const size_t h = w.size();
  Doubles y;
  for (size_t row = 0; row < x.size() / h; ++row) {
    double squares = 0;
    for (size_t i = 0; i < h; ++i) squares += x[row * h + i] * x[row * h + i];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(h) + epsilon);
    for (size_t i = 0; i < h; ++i) y.push_back(x[row * h + i] * rstd * w[i]);
  }
  return y;
}

TEST_P(RmsNormTest, MatchesTheReference) {
  Tensor x = Of(kNormRows, kNormColumns).Fill(1, 3), w = Of(1, kNormColumns).Fill(2);
  for (int64_t i = 0; i < kNormColumns; ++i)
    x.Set(i, 1e-3 * x.At(i));  // a row where epsilon matters
  Tensor y = Of(kNormRows, kNormColumns), rstd = F32(kNormRows, 1);
  ops_->RmsNorm(x.view(), w.view(), kNormEpsilon, y.view(), rstd.view());
  ExpectNear(y, Reference(x.doubles(), w.doubles()));
  double squares = 0;
  for (int64_t i = kNormColumns; i < 2 * kNormColumns; ++i) squares += x.At(i) * x.At(i);
  EXPECT_NEAR(rstd.At(1), 1 / std::sqrt(squares / kNormColumns + 1e-5), 1e-6);
}

TEST_P(RmsNormTest, AddsTheEpsilonThatItIsGiven) {
  Tensor x = Of(kNormRows, kNormColumns).Fill(1, 1e-3), w = Of(1, kNormColumns).Fill(2);
  Tensor y = Of(kNormRows, kNormColumns), rstd = F32(kNormRows, 1);
  for (const double epsilon : {1e-6, 0.5}) {
    ops_->RmsNorm(x.view(), w.view(), static_cast<float>(epsilon), y.view(), rstd.view());
    ExpectNear(y, Reference(x.doubles(), w.doubles(), epsilon));
  }
}

TEST_P(RmsNormTest, GradientsMatchFiniteDifferences) {
  Tensor x = Of(kNormRows, kNormColumns).Fill(1, 3), w = Of(1, kNormColumns).Fill(2);
  Tensor y = Of(kNormRows, kNormColumns), rstd = F32(kNormRows, 1),
         dy = Of(kNormRows, kNormColumns).Fill(4);
  Tensor residual = Of(kNormRows, kNormColumns).Fill(5), dx = Of(kNormRows, kNormColumns),
         dw = F32(1, kNormColumns);
  for (int64_t i = 0; i < kNormColumns; ++i) dw.Set(i, 0.5);
  Doubles xs = x.doubles(), ws = w.doubles();
  const Doubles dys = dy.doubles();
  const auto loss = [&] { return Dot(Reference(xs, ws), dys); };
  ops_->RmsNorm(x.view(), w.view(), kNormEpsilon, y.view(), rstd.view());

  Doubles want = Differences(loss, &ws);
  for (double& value : want) value += 0.5;
  ops_->RmsNormWgrad(dy.view(), x.view(), rstd.view(), dw.view());
  ExpectNear(dw, want);

  want = Differences(loss, &xs);
  ops_->RmsNormDgrad(dy.view(), x.view(), w.view(), rstd.view(), {}, dx.view());
  ExpectNear(dx, want);
  for (size_t i = 0; i < want.size(); ++i) want[i] += residual.At(static_cast<int64_t>(i));
  ops_->RmsNormDgrad(dy.view(), x.view(), w.view(), rstd.view(), residual.view(), residual.view());
  ExpectNear(residual, want);
}

}  // namespace
}  // namespace stretto
