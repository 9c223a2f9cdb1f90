// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using GemmTest = OpsTest;
STRETTO_ALL_MODES(GemmTest);

// c[m,n] (+)= sum over i of a(m,i) b(i,n)
Doubles Product(int64_t m, int64_t n, int64_t k, const std::function<double(int64_t, int64_t)>& a,
                const std::function<double(int64_t, int64_t)>& b) {
  Doubles c;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += a(row, i) * b(i, column);
      c.push_back(sum);
    }
  }
  return c;
}

// Fewer rows than a block, a whole block, and whole blocks with a rest.
class GemmRows : public OpsTest {};
STRETTO_ALL_MODES(GemmRows);

TEST_P(GemmRows, ForwardDgradAndWgradMatchTheReference) {
  for (const int64_t n : {1, 32, 128, 161}) {
    const int64_t c = 48, k = 80;
    Tensor x = Of(n, k).Fill(1), w = Of(c, k).Fill(2), y = Of(n, c), bias = Of(1, c).Fill(3);
    Tensor dx = Of(n, k), dw = F32(c, k).Fill(4);
    ops_->WeightsChanged();
    Doubles start = dw.doubles();

    Doubles forward = Product(
        n, c, k, [&](auto r, auto i) { return x.At(r * k + i); },
        [&](auto i, auto j) { return w.At(j * k + i); });
    ops_->Gemm(x.view(), w.view(), {}, y.view());
    ExpectNear(y, forward);

    y.Poison();
    for (size_t i = 0; i < forward.size(); ++i) forward[i] += bias.At(static_cast<int64_t>(i) % c);
    ops_->Gemm(x.view(), w.view(), bias.view(), y.view());
    ExpectNear(y, forward);

    ops_->GemmDgrad(y.view(), w.view(), 0, dx.view());
    ExpectNear(dx, Product(
                       n, k, c, [&](auto r, auto i) { return y.At(r * c + i); },
                       [&](auto i, auto j) { return w.At(i * k + j); }));

    Doubles wgrad = Product(
        c, k, n, [&](auto r, auto i) { return y.At(i * c + r); },
        [&](auto i, auto j) { return x.At(i * k + j); });
    for (size_t i = 0; i < wgrad.size(); ++i) wgrad[i] += start[i];
    ops_->GemmWgrad(y.view(), x.view(), dw.view());
    ExpectNear(dw, wgrad);
  }
}

TEST_P(GemmTest, GradientsMatchFiniteDifferences) {
  const int64_t n = 3, c = 4, k = 5;
  Tensor x = Of(n, k).Fill(1), w = Of(c, k).Fill(2), bias = Of(1, c).Fill(3), dy = Of(n, c).Fill(4);
  Doubles xs = x.doubles(), ws = w.doubles(), bs = bias.doubles();
  const Doubles dys = dy.doubles();
  const auto loss = [&] {
    Doubles y = Product(
        n, c, k, [&](auto r, auto i) { return xs[static_cast<size_t>(r * k + i)]; },
        [&](auto i, auto j) { return ws[static_cast<size_t>(j * k + i)]; });
    for (size_t i = 0; i < y.size(); ++i) y[i] += bs[i % static_cast<size_t>(c)];
    return Dot(y, dys);
  };
  Tensor dx = Of(n, k), dw = F32(c, k), db = F32(1, c);
  dw.Zero();
  db.Zero();
  ops_->GemmDgrad(dy.view(), w.view(), 0, dx.view());
  ops_->GemmWgrad(dy.view(), x.view(), dw.view());
  ops_->BiasGrad(dy.view(), db.view());
  ExpectNear(dx, Differences(loss, &xs));
  ExpectNear(dw, Differences(loss, &ws));
  ExpectNear(db, Differences(loss, &bs));
}

// The shapes where oneDNN picks other blockings for other row counts: bf16 with k = 3072 differs
// when it may choose (seen on AMX).
TEST_P(GemmTest, RowsOfRealShapesDoNotDependOnTheNumberOfRows) {
  struct Shape {
    int64_t n, c, k;
  };
  for (const Shape& s : {Shape{600, 576, 384}, Shape{600, 384, 192}, Shape{600, 192, 384},
                         Shape{600, 384, 768}, Shape{600, 256, 3072}}) {
    Tensor x = Of(s.n, s.k).Fill(1), w = Of(s.c, s.k).Fill(2), bias = Of(1, s.c).Fill(3);
    ops_->WeightsChanged();
    Tensor y = Of(s.n, s.c), dx = Of(s.n, s.k), sliced_y = Of(s.n, s.c), sliced_dx = Of(s.n, s.k);
    ops_->Gemm(x.view(), w.view(), bias.view(), y.view());
    ops_->GemmDgrad(y.view(), w.view(), 0, dx.view());
    for (const std::vector<int64_t>& cuts :
         {std::vector<int64_t>{0, 128, 256, 600}, {0, 32, 160, 600}, {0, 7, 40, 300, 600}}) {
      for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        const int64_t first = cuts[i], rows = cuts[i + 1] - first;
        ops_->Gemm(x.Rows(first, rows), w.view(), bias.view(), sliced_y.Rows(first, rows));
        ops_->GemmDgrad(y.Rows(first, rows), w.view(), 0, sliced_dx.Rows(first, rows));
      }
      EXPECT_EQ(y.bytes(), sliced_y.bytes()) << "forward c=" << s.c << " k=" << s.k;
      EXPECT_EQ(dx.bytes(), sliced_dx.bytes()) << "dgrad c=" << s.c << " k=" << s.k;
      sliced_y.Poison();
      sliced_dx.Poison();
    }
  }
}

// Column splits of a gradient: pieces [n, k/2] side by side are the whole.
TEST_P(GemmTest, DgradOfARangeOfColumnsMatchesTheReference) {
  const int64_t n = 70, c = 48, k = 80;
  Tensor dy = Of(n, c).Fill(1), w = Of(c, k).Fill(2);
  for (const auto& [first, width] :
       {std::pair<int64_t, int64_t>{0, 40}, {40, 40}, {16, 1}, {7, 61}}) {
    const int64_t begin = first;  // clang captures no structured binding
    Tensor dx = Of(n, width);
    ops_->GemmDgrad(dy.view(), w.view(), begin, dx.view());
    ExpectNear(dx, Product(
                       n, width, c, [&](auto r, auto i) { return dy.At(r * c + i); },
                       [&](auto i, auto j) { return w.At(i * k + begin + j); }));
  }
}

// Forward and both forms of backward keep what they derive from a weight only as long as it stays.
TEST_P(GemmTest, ChangedWeightsAreSeen) {
  const int64_t n = 5, c = 32, k = 48;
  Tensor x = Of(n, k).Fill(1), dy = Of(n, c).Fill(2), w = Of(c, k).Fill(3),
         other = Of(c, k).Fill(4);
  const auto run = [&](Ops& ops, Tensor& weight) {
    Tensor y = Of(n, c), dx = Of(n, k), part = Of(n, k / 2);
    ops.Gemm(x.view(), weight.view(), {}, y.view());
    ops.GemmDgrad(dy.view(), weight.view(), 0, dx.view());
    ops.GemmDgrad(dy.view(), weight.view(), k / 2, part.view());
    return std::vector<std::vector<unsigned char>>{y.bytes(), dx.bytes(), part.bytes()};
  };
  const auto before = run(*ops_, w);
  EXPECT_EQ(run(*ops_, w), before);
  std::memcpy(w.view().data, other.view().data, static_cast<size_t>(w.view().bytes()));
  ops_->WeightsChanged();
  const auto after = run(*ops_, w);
  EXPECT_NE(after, before);
  EXPECT_EQ(after, run(*ops_, other));

  // The optimizer says it itself; only of what it writes.
  Tensor master = F32(c, k), m = F32(c, k), v = F32(c, k), grad = F32(c, k).Fill(5);
  Tensor state = F32(1, kClipStateCount), scalars = F32(1, kScalarCount);
  for (int64_t i = 0; i < master.count(); ++i) master.Set(i, w.At(i));
  m.Zero();
  v.Zero();
  for (int64_t i = 0; i < kClipStateCount; ++i) state.Set(i, 1);
  for (int64_t i = 0; i < kScalarCount; ++i) scalars.Set(i, 0.5);
  ops_->AdamW(grad.view(), state.view(), scalars.view(), true, master.view(), m.view(), v.view(),
              w.view());
  Tensor copy = w;
  EXPECT_NE(run(*ops_, w), after);
  EXPECT_EQ(run(*ops_, w), run(*ops_, copy));
}

TEST_P(GemmTest, WeightGradientOfSlicesIsRepeatable) {
  const int64_t n = 96, c = 64, k = 48;
  Tensor x = Of(n, k).Fill(1), dy = Of(n, c).Fill(2);
  std::vector<unsigned char> first;
  for (int run = 0; run < 5; ++run) {
    Tensor dw = F32(c, k);
    dw.Zero();
    ops_->GemmWgrad(dy.Rows(0, 32), x.Rows(0, 32), dw.view());
    ops_->GemmWgrad(dy.Rows(32, 64), x.Rows(32, 64), dw.view());
    if (run == 0) first = dw.bytes();
    EXPECT_EQ(dw.bytes(), first);
  }
}

TEST(GemmDeathTest, MismatchedShapesAreOurBug) {
  Tensor x(DType::kF32, 4, 8), w(DType::kF32, 6, 9), y(DType::kF32, 4, 6);
  EXPECT_DEATH(MakeCpuOps()->Gemm(x.view(), w.view(), {}, y.view()), "CHECK failed: w.columns");
}

}  // namespace
}  // namespace stretto
