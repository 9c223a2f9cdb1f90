// SPDX-License-Identifier: Apache-2.0

// Embedding, position, layer norm and activation against double references.
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using LayersTest = OpsTest;
STRETTO_ALL_MODES(LayersTest);

constexpr int64_t kRows = 6, kColumns = 37;

Doubles NormReference(const Doubles& x, const Doubles& w, const Doubles& b, double epsilon = 1e-5) {
  const size_t h = w.size();
  Doubles y;
  for (size_t row = 0; row < x.size() / h; ++row) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < h; ++i) mean += x[row * h + i] / static_cast<double>(h);
    for (size_t i = 0; i < h; ++i)
      variance += std::pow(x[row * h + i] - mean, 2) / static_cast<double>(h);
    for (size_t i = 0; i < h; ++i) {
      y.push_back((x[row * h + i] - mean) / std::sqrt(variance + epsilon) * w[i] + b[i]);
    }
  }
  return y;
}

double GeluReference(double u) {
  return 0.5 * u * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
}

TEST_P(LayersTest, LayerNormMatchesTheReference) {
  Tensor x = Of(kRows, kColumns).Fill(1, 3), w = Of(1, kColumns).Fill(2),
         b = Of(1, kColumns).Fill(3);
  Tensor y = Of(kRows, kColumns), stats = F32(kRows, 2);
  ops_->LayerNorm(x.view(), w.view(), b.view(), kNormEpsilon, y.view(), stats.view());
  ExpectNear(y, NormReference(x.doubles(), w.doubles(), b.doubles()));
  double mean = 0;
  for (int64_t i = 0; i < kColumns; ++i) mean += x.At(i) / kColumns;
  EXPECT_NEAR(stats.At(0), mean, 1e-6);
}

TEST_P(LayersTest, LayerNormAddsTheEpsilonThatItIsGiven) {
  Tensor x = Of(kRows, kColumns).Fill(1, 1e-3), w = Of(1, kColumns).Fill(2),
         b = Of(1, kColumns).Fill(3);
  Tensor y = Of(kRows, kColumns), stats = F32(kRows, 2);
  for (const double epsilon : {1e-6, 0.5}) {
    ops_->LayerNorm(x.view(), w.view(), b.view(), static_cast<float>(epsilon), y.view(),
                    stats.view());
    ExpectNear(y, NormReference(x.doubles(), w.doubles(), b.doubles(), epsilon));
  }
}

TEST_P(LayersTest, LayerNormGradientsMatchFiniteDifferences) {
  Tensor x = Of(kRows, kColumns).Fill(1, 3), w = Of(1, kColumns).Fill(2),
         b = Of(1, kColumns).Fill(3);
  Tensor y = Of(kRows, kColumns), stats = F32(kRows, 2), dy = Of(kRows, kColumns).Fill(4);
  Tensor residual = Of(kRows, kColumns).Fill(5), dx = Of(kRows, kColumns);
  Tensor dw = F32(1, kColumns), db = F32(1, kColumns);
  dw.Zero();
  db.Zero();
  Doubles xs = x.doubles(), ws = w.doubles(), bs = b.doubles();
  const Doubles dys = dy.doubles();
  const auto loss = [&] { return Dot(NormReference(xs, ws, bs), dys); };
  ops_->LayerNorm(x.view(), w.view(), b.view(), kNormEpsilon, y.view(), stats.view());

  ops_->LayerNormWgrad(dy.view(), x.view(), stats.view(), dw.view(), db.view());
  ExpectNear(dw, Differences(loss, &ws));
  ExpectNear(db, Differences(loss, &bs));

  Doubles want = Differences(loss, &xs);
  ops_->LayerNormDgrad(dy.view(), x.view(), w.view(), stats.view(), {}, dx.view());
  ExpectNear(dx, want);
  for (size_t i = 0; i < want.size(); ++i) want[i] += residual.At(static_cast<int64_t>(i));
  ops_->LayerNormDgrad(dy.view(), x.view(), w.view(), stats.view(), residual.view(),
                       residual.view());
  ExpectNear(residual, want);
}

TEST_P(LayersTest, GeluAndItsGradientMatchAlsoFarOut) {
  Tensor u = Of(kRows, kColumns).Fill(1, 4), da = Of(kRows, kColumns).Fill(2);
  u.Set(0, 30);
  u.Set(1, -30);
  u.Set(2, 0);
  Tensor a = Of(kRows, kColumns);
  Doubles us = u.doubles(), want;
  const Doubles das = da.doubles();
  for (const double x : us) want.push_back(GeluReference(x));
  const auto loss = [&] {
    double sum = 0;
    for (size_t i = 0; i < us.size(); ++i) sum += GeluReference(us[i]) * das[i];
    return sum;
  };
  ops_->Gelu(u.view(), a.view());
  ExpectNear(a, want);
  ops_->GeluGrad(u.view(), da.view(), da.view());  // du may be da
  ExpectNear(da, Differences(loss, &us));
}

TEST_P(LayersTest, NanGoesThroughGelu) {
  Tensor u = Of(1, 20).Fill(1), a = Of(1, 20);
  u.Set(3, std::nan(""));
  ops_->Gelu(u.view(), a.view());
  EXPECT_TRUE(std::isnan(a.At(3)));
  EXPECT_FALSE(std::isnan(a.At(4)));
}

TEST_P(LayersTest, SwiGluAndItsGradientMatch) {
  const int64_t half = 19;
  Tensor u = Of(kRows, 2 * half).Fill(1, 4), da = Of(kRows, half).Fill(2);
  u.Set(0, 30);
  u.Set(1, -30);
  u.Set(2, 0);
  Tensor a = Of(kRows, half), du = Of(kRows, 2 * half);
  Doubles us = u.doubles();
  const Doubles das = da.doubles();
  const auto reference = [&] {
    Doubles out;
    for (size_t i = 0; i < das.size(); ++i) {
      const size_t row = i / half, gate = row * 2 * half + i % half;
      out.push_back(us[gate] / (1 + std::exp(-us[gate])) * us[gate + half]);
    }
    return out;
  };
  ops_->SwiGlu(u.view(), a.view());
  ExpectNear(a, reference());
  ops_->SwiGluGrad(u.view(), da.view(), du.view());
  ExpectNear(du, Differences([&] { return Dot(reference(), das); }, &us));
}

TEST_P(LayersTest, BiasResidualAddsAllThreeOrTwo) {
  Tensor x = Of(kRows, kColumns).Fill(1), r = Of(kRows, kColumns).Fill(2),
         bias = Of(1, kColumns).Fill(3);
  Tensor y = Of(kRows, kColumns);
  Doubles with_bias, without;
  for (int64_t i = 0; i < x.count(); ++i) {
    without.push_back(x.At(i) + r.At(i));
    with_bias.push_back(without.back() + bias.At(i % kColumns));
  }
  ops_->BiasResidual(r.view(), bias.view(), x.view(), {}, {}, y.view());
  ExpectNear(y, with_bias);
  ops_->BiasResidual(r.view(), {}, x.view(), {}, {}, y.view());
  ExpectNear(y, without);
}

TEST_P(LayersTest, EmbeddingTakesTheRowsOfItsShardAndGivesThemTheirGradient) {
  const VocabShard vocab{.start = 4, .size = 12};
  Tensor table = Of(4, kColumns).Fill(1), tokens = Index(kRows), y = Of(kRows, kColumns);
  const std::vector<int> ids = {3, 4, 7, 8, 4, 11};  // rows 4..7 are here
  for (int64_t i = 0; i < kRows; ++i) tokens.Set(i, ids[static_cast<size_t>(i)]);
  Doubles want, grad(static_cast<size_t>(table.count()), 0.5);
  Tensor dx = Of(kRows, kColumns).Fill(2), dtable = F32(4, kColumns);
  for (int64_t i = 0; i < dtable.count(); ++i) dtable.Set(i, 0.5);
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t id = ids[static_cast<size_t>(row)] - vocab.start;
    const bool here = id >= 0 && id < 4;
    for (int64_t i = 0; i < kColumns; ++i) {
      want.push_back(here ? table.At(id * kColumns + i) : 0);
      if (here) grad[static_cast<size_t>(id * kColumns + i)] += dx.At(row * kColumns + i);
    }
  }
  ops_->Embed(tokens.view(), table.view(), vocab, y.view());
  ExpectNear(y, want, 0);
  ops_->EmbedGrad(tokens.view(), dx.view(), vocab, dtable.view());
  ExpectNear(dtable, grad, 1e-6);
}

TEST_P(LayersTest, PositionsRepeatInEverySequence) {
  const int64_t s = 3;
  Tensor position = Of(s, kColumns).Fill(1), x = Of(kRows, kColumns).Fill(2),
         dposition = F32(s, kColumns);
  dposition.Zero();
  Doubles want, grad(static_cast<size_t>(s * kColumns), 0.0);
  for (int64_t i = 0; i < x.count(); ++i) want.push_back(x.At(i) + position.At(i % (s * kColumns)));
  ops_->AddPosition(position.view(), 0, x.view());
  ExpectNear(x, want);
  for (int64_t i = 0; i < x.count(); ++i) grad[static_cast<size_t>(i % (s * kColumns))] += x.At(i);
  ops_->PositionGrad(x.view(), 0, dposition.view());
  ExpectNear(dposition, grad);
}

// Four tokens from the third of a sequence of three on: positions 2, 0, 1, 2.
TEST_P(LayersTest, PositionsStartAtTheFirstToken) {
  Tensor position = Of(3, 2).Fill(1), x = Of(4, 2).Fill(2), dposition = F32(3, 2);
  dposition.Zero();
  Doubles want, grad(6, 0.0);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < 2; ++i)
      want.push_back(x.At(row * 2 + i) + position.At((row + 2) % 3 * 2 + i));
  }
  ops_->AddPosition(position.view(), 5, x.view());
  ExpectNear(x, want);
  for (int64_t i = 0; i < 8; ++i) grad[static_cast<size_t>((i + 4) % 6)] += x.At(i);
  ops_->PositionGrad(x.view(), 5, dposition.view());
  ExpectNear(dposition, grad);
}

}  // namespace
}  // namespace stretto
