#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using AttentionTest = OpsTest;
STRETTO_ALL_MODES(AttentionTest);

struct Reference {
  Doubles context, lse;
};

Reference Forward(const AttentionShape& shape, const Doubles& qkv) {
  const auto s = static_cast<size_t>(shape.sequence_length),
             d = static_cast<size_t>(shape.head_dim);
  const auto heads = static_cast<size_t>(shape.heads);
  const size_t width = heads * d, n = qkv.size() / (3 * width);
  Reference out{Doubles(n * width, 0), Doubles(n * heads, 0)};
  for (size_t row = 0; row < n; ++row) {
    for (size_t head = 0; head < heads; ++head) {
      const double* q = &qkv[row * 3 * width + head * d];
      double sum = 0;
      Doubles context(d, 0);
      for (size_t key = row / s * s; key <= row; ++key) {
        const double* k = &qkv[key * 3 * width + width + head * d];
        double score = 0;
        for (size_t i = 0; i < d; ++i) score += q[i] * k[i];
        const double p = std::exp(score / std::sqrt(static_cast<double>(d)));
        sum += p;
        for (size_t i = 0; i < d; ++i) context[i] += p * k[width + i];
      }
      for (size_t i = 0; i < d; ++i) out.context[row * width + head * d + i] = context[i] / sum;
      out.lse[row * heads + head] = std::log(sum);
    }
  }
  return out;
}

void CheckShape(Ops& ops, DType dtype, const AttentionShape& shape, int64_t sequences,
                size_t stride) {
  const int64_t n = sequences * shape.sequence_length, width = shape.heads * shape.head_dim;
  Tensor qkv(dtype, n, 3 * width), context(dtype, n, width), lse(DType::kF32, n, shape.heads);
  Tensor scratch(DType::kF32, 1, AttentionScratch(shape));
  Tensor dcontext(dtype, n, width), dqkv(dtype, n, 3 * width);
  qkv.Fill(1, 2);
  dcontext.Fill(2);
  Doubles values = qkv.doubles();
  const Reference want = Forward(shape, values);
  const Doubles dys = dcontext.doubles();

  ops.Attention(shape, qkv.view(), context.view(), lse.view(), scratch.view());
  ExpectNear(context, want.context);
  ExpectNear(lse, want.lse);

  scratch.Poison();
  Doubles gradient =
      Differences([&] { return Dot(Forward(shape, values).context, dys); }, &values, stride);
  ops.AttentionGrad(shape, dcontext.view(), qkv.view(), context.view(), lse.view(), dqkv.view(),
                    scratch.view());
  for (int64_t i = 0; i < dqkv.count(); ++i) {
    ASSERT_TRUE(std::isfinite(dqkv.At(i))) << "element " << i;
    if (std::isnan(gradient[static_cast<size_t>(i)])) gradient[static_cast<size_t>(i)] = dqkv.At(i);
  }
  // The bf16 context that backward reads is rounded by 2^-9, which moves every score's gradient by
  // at most 2^-9 of the sum of |dcontext * context|.
  ExpectNear(dqkv, gradient, dtype == DType::kBF16 ? 1.0 / 512 : 2e-5);
}

TEST_P(AttentionTest, MatchesTheReferenceAndFiniteDifferences) {
  CheckShape(*ops_, GetParam().dtype, {.sequence_length = 5, .heads = 2, .head_dim = 3}, 2, 1);
}

// Longer than two blocks of queries, with a rest.
TEST_P(AttentionTest, BlocksOfQueriesMatchFiniteDifferencesAtSamples) {
  CheckShape(*ops_, GetParam().dtype, {.sequence_length = 133, .heads = 2, .head_dim = 8}, 1, 211);
}

TEST_P(AttentionTest, LaterTokensDoNotReachEarlierOnes) {
  const AttentionShape shape{.sequence_length = 70, .heads = 1, .head_dim = 4};
  Tensor qkv = Of(70, 12).Fill(1), before = Of(70, 4), after = Of(70, 4), lse = F32(70, 1);
  Tensor scratch = F32(1, AttentionScratch(shape));
  ops_->Attention(shape, qkv.view(), before.view(), lse.view(), scratch.view());
  for (int64_t i = 0; i < 12; ++i) qkv.Set(69 * 12 + i, 3);
  ops_->Attention(shape, qkv.view(), after.view(), lse.view(), scratch.view());
  EXPECT_EQ(std::memcmp(before.bytes().data(), after.bytes().data(), 69 * 4 * SizeOf(qkv.dtype())),
            0);
}

}  // namespace
}  // namespace stretto
