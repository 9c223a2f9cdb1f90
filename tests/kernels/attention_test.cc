// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/documents.h"
#include "tests/kernels/philox.h"
#include "tests/kernels/testing.h"

namespace stretto {
namespace {

using AttentionTest = OpsTest;
STRETTO_ALL_MODES(AttentionTest);

struct Reference {
  Doubles context, lse;
};

// What ops.h says of the probability of (row, head, key), with the keys (11, 22, 7, 1000).
double Factor(const AttentionShape& shape, const Dropout& dropout, size_t row, size_t head,
              size_t key) {
  if (!dropout.on()) return 1;
  const size_t column = key % static_cast<size_t>(shape.sequence_length);
  const auto head_word = static_cast<uint32_t>(shape.first_head + head + 1);
  const PhiloxWords words = Philox(
      {static_cast<uint32_t>(column / 4), static_cast<uint32_t>(1000 + dropout.first_token + row),
       static_cast<uint32_t>(dropout.site) + (head_word << 16), 7},
      11, 22);
  return words[column % 4] < dropout.threshold ? 0 : dropout.scale();
}

// begins: of each row's document in its sequence; empty: a sequence is one document.
Reference Forward(const AttentionShape& shape, const Dropout& dropout, const Doubles& begins,
                  const Doubles& qkv) {
  const auto s = static_cast<size_t>(shape.sequence_length),
             d = static_cast<size_t>(shape.head_dim);
  const auto heads = static_cast<size_t>(shape.heads),
             group = heads / static_cast<size_t>(shape.kv_heads);
  const auto columns = static_cast<size_t>(shape.qkv_columns());
  const size_t n = qkv.size() / columns, width = heads * d;
  Reference out{Doubles(n * width, 0), Doubles(n * heads, 0)};
  for (size_t row = 0; row < n; ++row) {
    for (size_t head = 0; head < heads; ++head) {
      const size_t of_group = head / group * (group + 2) * d;
      const double* q = &qkv[row * columns + of_group + head % group * d];
      double sum = 0;
      Doubles context(d, 0);
      const size_t begin = begins.empty() ? 0 : static_cast<size_t>(begins[row]);
      for (size_t key = row / s * s + begin; key <= row; ++key) {
        const double* k = &qkv[key * columns + of_group + group * d];
        double score = 0;
        for (size_t i = 0; i < d; ++i) score += q[i] * k[i];
        const double p = std::exp(score / std::sqrt(static_cast<double>(d)));
        sum += p;
        const double kept = p * Factor(shape, dropout, row, head, key);
        for (size_t i = 0; i < d; ++i) context[i] += kept * k[d + i];
      }
      for (size_t i = 0; i < d; ++i) out.context[row * width + head * d + i] = context[i] / sum;
      out.lse[(row / s * heads + head) * s + row % s] = std::log(sum);
    }
  }
  return out;
}

void CheckShape(Ops& ops, DType dtype, const AttentionShape& shape, const Dropout& dropout,
                int64_t sequences, size_t stride, const DocumentBegins& begins = {}) {
  const int64_t n = sequences * shape.sequence_length, width = shape.context_columns();
  const int64_t columns = shape.qkv_columns();
  Tensor qkv(dtype, n, columns), context(dtype, n, width),
      lse(DType::kF32, sequences * shape.heads, shape.sequence_length);
  Tensor scratch(DType::kF32, 1, AttentionScratch(shape, n)), keys = KeysOf(11, 22, 7, 1000);
  Tensor dcontext(dtype, n, width), dqkv(dtype, n, columns);
  qkv.Fill(1, 2);
  dcontext.Fill(2);
  Doubles values = qkv.doubles();
  Tensor documents = TensorOf(begins, shape.sequence_length);
  const TensorView apart = OperandOf(documents, 0, n);
  const Doubles firsts = documents.doubles();
  const Reference want = Forward(shape, dropout, firsts, values);
  const Doubles dys = dcontext.doubles();

  ops.Attention(shape, dropout, keys.view(), apart, qkv.view(), context.view(), lse.view(),
                scratch.view());
  ExpectNear(context, want.context);
  ExpectNear(lse, want.lse);

  scratch.Poison();
  Doubles gradient = Differences(
      [&] { return Dot(Forward(shape, dropout, firsts, values).context, dys); }, &values, stride);
  ops.AttentionGrad(shape, dropout, keys.view(), apart, dcontext.view(), qkv.view(), context.view(),
                    lse.view(), dqkv.view(), scratch.view());
  for (int64_t i = 0; i < dqkv.count(); ++i) {
    ASSERT_TRUE(std::isfinite(dqkv.At(i))) << "element " << i;
    if (std::isnan(gradient[static_cast<size_t>(i)])) gradient[static_cast<size_t>(i)] = dqkv.At(i);
  }
  // The bf16 context that backward reads is rounded by 2^-9, which moves every score's gradient by
  // at most 2^-9 of the sum of |dcontext * context|. Where documents are short, so are the sums
  // over queries that make the largest gradients, to which the bound is relative: twice that.
  const double rounding = begins.empty() ? 1.0 / 512 : 1.0 / 256;
  ExpectNear(dqkv, gradient, dtype == DType::kBF16 ? rounding : 2e-5);
}

constexpr Dropout kQuarter{.threshold = int64_t{1} << 30, .site = 6, .first_token = 40};

TEST_P(AttentionTest, MatchesTheReferenceAndFiniteDifferences) {
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 5, .heads = 2, .kv_heads = 2, .head_dim = 3}, {}, 2, 1);
}

// Longer than two blocks of queries, with a rest.
TEST_P(AttentionTest, BlocksOfQueriesMatchFiniteDifferencesAtSamples) {
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 133, .heads = 2, .kv_heads = 2, .head_dim = 8}, {}, 1, 211);
}

TEST_P(AttentionTest, GroupsOfQueriesShareAKeyAndAddUpItsGradient) {
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 5, .heads = 6, .kv_heads = 2, .head_dim = 4}, {}, 2, 1);
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 70, .heads = 3, .kv_heads = 1, .head_dim = 4}, {}, 1, 61);
}

TEST_P(AttentionTest, DropsTheSameProbabilitiesForwardAndBackward) {
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 5, .heads = 4, .kv_heads = 2, .head_dim = 4, .first_head = 3},
             kQuarter, 2, 1);
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 133, .heads = 1, .kv_heads = 1, .head_dim = 8, .first_head = 1},
             kQuarter, 1, 57);
}

// Documents of one token, in the middle of a block and at its edges; a whole block of another one.
TEST_P(AttentionTest, DocumentsDoNotSeeEachOther) {
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 5, .heads = 6, .kv_heads = 2, .head_dim = 4}, {}, 3, 1,
             {{0, 2}, {0}, {0, 1, 2, 3, 4}});
  CheckShape(*ops_, GetParam().dtype,
             {.sequence_length = 5, .heads = 4, .kv_heads = 2, .head_dim = 4, .first_head = 3},
             kQuarter, 2, 1, {{0, 1, 4}, {0, 3}});
  const AttentionShape blocks{.sequence_length = 200, .heads = 2, .kv_heads = 1, .head_dim = 8};
  for (const std::vector<int64_t>& begins :
       {std::vector<int64_t>{0, 64, 128}, {0, 1, 40, 63, 65, 199}, {0, 131}, {0, 33}}) {
    CheckShape(*ops_, GetParam().dtype, blocks, {}, 1, 211, {begins});
  }
  CheckShape(*ops_, GetParam().dtype, blocks, kQuarter, 1, 173, {{0, 31, 96, 150}});
}

// Two ranks with two of four heads each drop what one with all four drops.
TEST_P(AttentionTest, DrawsDoNotDependOnTheRankThatHasTheHead) {
  const AttentionShape all{.sequence_length = 9, .heads = 4, .kv_heads = 4, .head_dim = 4};
  AttentionShape half = all;
  half.heads = half.kv_heads = 2;
  half.first_head = 2;
  const int64_t n = 2 * all.sequence_length, columns = half.qkv_columns();
  Tensor qkv = Of(n, all.qkv_columns()).Fill(1), second = Of(n, columns), keys = KeysOf(1, 2, 3, 4);
  for (int64_t i = 0; i < second.count(); ++i)
    second.Set(i, qkv.At(i / columns * 2 * columns + columns + i % columns));
  Tensor context = Of(n, 16), part = Of(n, 8), lse = F32(8, 9), part_lse = F32(4, 9);
  Tensor scratch = F32(1, AttentionScratch(all, n));
  ops_->Attention(all, kQuarter, keys.view(), {}, qkv.view(), context.view(), lse.view(),
                  scratch.view());
  ops_->Attention(half, kQuarter, keys.view(), {}, second.view(), part.view(), part_lse.view(),
                  scratch.view());
  for (int64_t i = 0; i < part.count(); ++i)
    ASSERT_EQ(part.At(i), context.At(i / 8 * 16 + 8 + i % 8)) << i;
}

TEST_P(AttentionTest, SlicesDrawWhatTheWholeDraws) {
  const AttentionShape shape{.sequence_length = 70, .heads = 2, .kv_heads = 1, .head_dim = 4};
  const int64_t s = shape.sequence_length, n = 3 * s;
  Tensor qkv = Of(n, 16).Fill(1), dcontext = Of(n, 8).Fill(2), keys = KeysOf(1, 2, 3, 4);
  Tensor scratch = F32(1, AttentionScratch(shape, n));
  const auto run = [&](std::vector<int64_t> cuts) {
    Tensor context = Of(n, 8), lse = F32(3 * 2, s), dqkv = Of(n, 16);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      const int64_t first = cuts[i] * s, rows = cuts[i + 1] * s - first;
      const Dropout dropout{.threshold = 1 << 30, .site = 6, .first_token = first};
      const TensorView logs = lse.Rows(cuts[i] * 2, (cuts[i + 1] - cuts[i]) * 2);
      ops_->Attention(shape, dropout, keys.view(), {}, qkv.Rows(first, rows),
                      context.Rows(first, rows), logs, scratch.view());
      ops_->AttentionGrad(shape, dropout, keys.view(), {}, dcontext.Rows(first, rows),
                          qkv.Rows(first, rows), context.Rows(first, rows), logs,
                          dqkv.Rows(first, rows), scratch.view());
    }
    std::vector<unsigned char> bits = context.bytes();
    bits.insert(bits.end(), dqkv.bytes().begin(), dqkv.bytes().end());
    return bits;
  };
  const auto whole = run({0, 3});
  EXPECT_EQ(run({0, 1, 3}), whole);
  EXPECT_EQ(run({0, 1, 2, 3}), whole);
}

// Copies of the heads are padded and their memory is used again.
TEST_P(AttentionTest, NanOfAnEarlierCallDoesNotReachALaterOne) {
  const AttentionShape shape{.sequence_length = 21, .heads = 1, .kv_heads = 1, .head_dim = 5};
  const auto run = [&](AttentionShape of, Tensor qkv) {
    const int64_t s = of.sequence_length;
    Tensor dcontext = Of(s, 5).Fill(2), context = Of(s, 5), lse = F32(1, s), dqkv = Of(s, 15);
    Tensor scratch = F32(1, AttentionScratch(of, s));
    ops_->Attention(of, {}, {}, {}, qkv.view(), context.view(), lse.view(), scratch.view());
    ops_->AttentionGrad(of, {}, {}, {}, dcontext.view(), qkv.view(), context.view(), lse.view(),
                        dqkv.view(), scratch.view());
    return std::make_pair(context.bytes(), dqkv.bytes());
  };
  const auto first = run(shape, Of(21, 15).Fill(1));
  AttentionShape longer = shape;
  longer.sequence_length = 140;
  run(longer, Of(140, 15));  // all NaN
  EXPECT_EQ(run(shape, Of(21, 15).Fill(1)), first);
}

TEST_P(AttentionTest, LaterTokensDoNotReachEarlierOnes) {
  const AttentionShape shape{.sequence_length = 70, .heads = 1, .kv_heads = 1, .head_dim = 4};
  Tensor qkv = Of(70, 12).Fill(1), before = Of(70, 4), after = Of(70, 4), lse = F32(1, 70);
  Tensor scratch = F32(1, AttentionScratch(shape, 70));
  ops_->Attention(shape, {}, {}, {}, qkv.view(), before.view(), lse.view(), scratch.view());
  for (int64_t i = 0; i < 12; ++i) qkv.Set(69 * 12 + i, 3);
  ops_->Attention(shape, {}, {}, {}, qkv.view(), after.view(), lse.view(), scratch.view());
  EXPECT_EQ(std::memcmp(before.bytes().data(), after.bytes().data(), 69 * 4 * SizeOf(qkv.dtype())),
            0);
}

}  // namespace
}  // namespace stretto
