// SPDX-License-Identifier: Apache-2.0

// Causal attention per (sequence, head) on dense f32 copies, in blocks of query rows. Backward
// recomputes the probabilities from lse, as in FlashAttention-2 (Dao 2023, section 3.1). With
// documents, a block leaves out the keys before the document of its first row, and rows mask those
// before their own.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/thread_buffers.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu::STRETTO_CPU_OPS {

namespace {

// Matrices of one key/value head and its group of query heads, [padded s][padded d]. The padding
// columns are undefined, the padding rows 0. `_t` is transposed, in strips. Those of a block of
// queries have kQueryBlock rows.
struct Matrices {
  int64_t elements;
  int64_t ld;        // of scores; not a power of two, which would map the rows to few cache sets
  float *q, *k, *v;  // one after the other, as in a row of qkv; q is the group's first
  float *k_t, *v_t, *dout, *dk, *dv;
  float *scores, *dscores, *rows, *delta;

  explicit Matrices(const AttentionShape& shape) {
    const int64_t keys = Padded(shape.sequence_length), width = Padded(shape.head_dim);
    const int64_t group = shape.heads / shape.kv_heads;
    elements = keys * width;
    ld = keys + kLanes;
    const int64_t all = (group + 7) * elements + kQueryBlock * (2 * ld + width) + keys;
    q = static_cast<float*>(ThreadBuffer(Buffer::kAttention, all * sizeof(float)));
    k = q + group * elements;
    v = k + elements;
    k_t = v + elements;
    v_t = k_t + elements;
    dout = v_t + elements;
    dk = dout + elements;
    dv = dk + elements;
    scores = dv + elements;
    dscores = scores + kQueryBlock * ld;
    rows = dscores + kQueryBlock * ld;
    delta = rows + kQueryBlock * width;
  }
};

// Prefetches a row: rows of a head are on different pages, where hardware prefetching stops.
template <class T>
void Prefetch(const T* row, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(row + i);
}
constexpr int64_t kPrefetchRows = 8;

// Copies `pieces` neighbouring heads of [s, d] into one matrix each.
template <class T>
void Load(const AttentionShape& shape, const T* source, int64_t ld, int64_t pieces, float* matrix) {
  const int64_t s = shape.sequence_length, d = shape.head_dim, width = Padded(d);
  const int64_t elements = Padded(s) * width;
  for (int64_t row = 0; row < s; ++row, source += ld) {
    if (row + kPrefetchRows < s) Prefetch(source + kPrefetchRows * ld, pieces * d);
    for (int64_t piece = 0; piece < pieces; ++piece) {
      ToFloats(source + piece * d, d, matrix + piece * elements + row * width);
    }
  }
  for (int64_t piece = 0; piece < pieces; ++piece) {
    std::fill(matrix + piece * elements + s * width, matrix + (piece + 1) * elements, 0.0f);
  }
}

template <class T>
float Dot(const float* a, const T* b, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += a[i] * ToFloat(b[i]);
  return sum;
}

// delta[row] = dout[row] * out[row], which the gradient of softmax subtracts.
template <class T>
void Deltas(const AttentionShape& shape, const float* dout, const T* out, float* delta) {
  const int64_t s = shape.sequence_length, d = shape.head_dim, ld = shape.context_columns();
  for (int64_t row = 0; row < s; ++row, out += ld, dout += Padded(d)) {
    if (row + kPrefetchRows < s) Prefetch(out + kPrefetchRows * ld, d);
    delta[row] = Dot(dout, out, d);
  }
}

template <class T>
void Store(const AttentionShape& shape, const float* matrix, T* target, int64_t ld) {
  const int64_t width = Padded(shape.head_dim);
  for (int64_t row = 0; row < shape.sequence_length; ++row) {
    FromFloats(matrix + row * width, shape.head_dim, target + row * ld);
  }
}

void TransposeHead(const AttentionShape& shape, const float* matrix, float* transposed) {
  Transpose(matrix, Padded(shape.sequence_length), Padded(shape.head_dim), transposed);
}

// Returns the end of the last vector with a valid key, and sets scores before the valid keys, and
// between them and it, to minus infinity. Their exp is 0, so tiles that cross the diagonal or the
// beginning of a document add nothing.
int64_t MaskAround(float* scores, const Keys& valid) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  const int64_t end = (valid.end + kLanes - 1) / kLanes * kLanes;
  std::fill(scores, scores + valid.begin, kMasked);
  std::fill(scores + valid.end, scores + end, kMasked);
  return end;
}

// Replaces x by exp(x * scale - its maximum) over the valid keys, and by 0 around them. Returns the
// sum.
float SoftmaxRow(float* x, const Keys& valid, float scale, float* max) {
  const int64_t end = MaskAround(x, valid);
  const float top = RowMax(x, end) * scale;
#pragma omp simd
  for (int64_t i = 0; i < end; ++i) x[i] = Exp(x[i] * scale - top);
  *max = top;
  return RowSum(x, end);
}

// Replaces scores x by probabilities p = exp(x * scale - lse), and gradients of p by those of the
// scores, p * (dp - delta) * scale. Both are 0 around the valid keys.
void ScoreGradRow(float* x, float* dp, const Keys& valid, float lse, float delta, float scale) {
  const int64_t end = MaskAround(x, valid);
#pragma omp simd
  for (int64_t i = 0; i < end; ++i) {
    x[i] = Exp(x[i] * scale - lse);
    dp[i] = x[i] * (dp[i] - delta) * scale;
  }
}

void MultiplyRow(const float* factors, int64_t count, float* x) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) x[i] *= factors[i];
}

// Dropout of one head's probabilities, starting at the first row of a sequence.
struct HeadDraws {
  std::optional<Draws> draws;  // none: off
  int64_t first_row = 0;

  HeadDraws(const AttentionShape& shape, const Dropout& dropout, const TensorView& keys,
            int64_t head, int64_t token)
      : first_row(token) {
    if (dropout.on()) draws.emplace(dropout, keys, shape.first_head + head);
  }
  // Returns the factors of query `row` for the keys [first, row].
  const float* Row(int64_t row, int64_t first) const {
    float* const factors = FactorBuffer(row + 1);
    draws->Factors(first_row + row, row + 1, factors);
    return factors + first;
  }
};

// out starts at the head's first element; lse is the head's.
template <class T>
void ForwardHead(const AttentionShape& shape, const HeadDraws& drop, const Documents& documents,
                 const Matrices& m, const float* q, T* out, float* lse) {
  const int64_t s = shape.sequence_length, d = shape.head_dim, width = Padded(d), ld = m.ld;
  const float scale = shape.scale();
  for (int64_t first = 0; first < s; first += kQueryBlock) {
    const QueryRows block = BlockOf(shape, documents, first);
    MultiplyScores(block, d, {q + first * width, width, 1}, m.k_t, width, m.scores, ld);
    float inverse[kQueryBlock];
    for (int64_t row = 0; row < block.rows; ++row) {
      const int64_t at = first + row;
      const Keys valid(block, documents, at);
      float* const scores = m.scores + row * ld + block.keys_from;
      float max = 0;
      const float sum = SoftmaxRow(scores, valid, scale, &max);
      lse[at] = max + std::log(sum);
      inverse[row] = 1.0f / sum;
      if (drop.draws) MultiplyRow(drop.Row(at, block.keys_from), valid.end, scores);
    }
    MultiplyValues(block, width, m.scores, ld, m.v, m.rows);
    for (int64_t row = 0; row < block.rows; ++row) {
      const float* sums = m.rows + row * width;
      T* o = out + (first + row) * shape.context_columns();
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) o[i] = FromFloat<T>(sums[i] * inverse[row]);
    }
  }
}

// Adds to m.dk and m.dv, or overwrites them if `fresh`.
template <class T>
void BackwardHead(const AttentionShape& shape, const HeadDraws& drop, const Documents& documents,
                  const Matrices& m, bool fresh, const float* all_q, const float* lse, T* dq) {
  const int64_t s = shape.sequence_length, d = shape.head_dim, width = Padded(d), ld = m.ld;
  const float scale = shape.scale();
  for (int64_t first = 0; first < s; first += kQueryBlock) {
    const QueryRows block = BlockOf(shape, documents, first);
    const float* const q = all_q + first * width;
    const float* const dout = m.dout + first * width;
    MultiplyScores(block, d, {q, width, 1}, m.k_t, width, m.scores, ld);
    MultiplyScores(block, d, {dout, width, 1}, m.v_t, width, m.dscores, ld);
    for (int64_t row = 0; row < block.rows; ++row) {
      const int64_t at = first + row;
      const Keys valid(block, documents, at);
      float* const p = m.scores + row * ld + block.keys_from;
      float* const dp = m.dscores + row * ld + block.keys_from;
      const float* factors = drop.draws ? drop.Row(at, block.keys_from) : nullptr;
      if (factors) MultiplyRow(factors, valid.end, dp);
      ScoreGradRow(p, dp, valid, lse[at], m.delta[at], scale);
      if (factors) MultiplyRow(factors, valid.end, p);
    }
    MultiplyValues(block, width, m.dscores, ld, m.k, m.rows);
    for (int64_t row = 0; row < block.rows; ++row) {
      FromFloats(m.rows + row * width, d, dq + (first + row) * shape.qkv_columns());
    }
    AddTransposed(block, fresh, width, m.dscores, ld, q, m.dk);
    AddTransposed(block, fresh, width, m.scores, ld, dout, m.dv);
  }
}

void CheckShapes(const AttentionShape& shape, const TensorView& documents, const TensorView& qkv,
                 const TensorView& context, const TensorView& lse) {
  STRETTO_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0);
  STRETTO_CHECK(qkv.columns() == shape.qkv_columns());
  STRETTO_CHECK(context.columns() == shape.context_columns());
  STRETTO_CHECK(qkv.dtype == context.dtype && qkv.rows() == context.rows());
  STRETTO_CHECK(qkv.rows() % shape.sequence_length == 0);
  STRETTO_CHECK(lse.dtype == DType::kF32 && lse.count() == qkv.rows() * shape.heads);
  if (documents.data == nullptr) return;
  STRETTO_CHECK(documents.dtype == DType::kI32 && documents.count() == qkv.rows());
}

// Returns a head's part of lse for the sequence that starts at `token`.
float* LseOf(const AttentionShape& shape, const TensorView& lse, int64_t token, int64_t head) {
  return lse.as<float>() + token * shape.heads + head * shape.sequence_length;
}

// Calls f(first token, key/value head) for every sequence and key/value head.
template <class F>
void ForEveryGroup(const AttentionShape& shape, int64_t rows, F&& f) {
  for (int64_t token = 0; token < rows; token += shape.sequence_length) {
    for (int64_t kv = 0; kv < shape.kv_heads; ++kv) f(token, kv);
  }
}

}  // namespace

// Scratch is not used: the copies need padding, and they are much smaller.
void CpuOps::Attention(AttentionShape shape, Dropout dropout, TensorView keys, TensorView documents,
                       TensorView qkv, TensorView context, TensorView lse, TensorView) {
  CheckShapes(shape, documents, qkv, context, lse);
  const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  const int64_t in_ld = shape.qkv_columns();
  const Matrices m(shape);
  WithType(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    ForEveryGroup(shape, qkv.rows(), [&](int64_t token, int64_t kv) {
      const T* const in = qkv.as<T>() + token * in_ld + kv * (group + 2) * d;
      Load(shape, in, in_ld, group + 2, m.q);
      TransposeHead(shape, m.k, m.k_t);
      for (int64_t i = 0; i < group; ++i) {
        const int64_t head = kv * group + i;
        ForwardHead(shape, HeadDraws(shape, dropout, keys, head, token),
                    Documents(documents, token), m, m.q + i * m.elements,
                    context.as<T>() + token * shape.context_columns() + head * d,
                    LseOf(shape, lse, token, head));
      }
    });
  });
}

void CpuOps::AttentionGrad(AttentionShape shape, Dropout dropout, TensorView keys,
                           TensorView documents, TensorView dcontext, TensorView qkv,
                           TensorView context, TensorView lse, TensorView dqkv, TensorView) {
  CheckShapes(shape, documents, qkv, context, lse);
  STRETTO_CHECK(dqkv.dtype == qkv.dtype && dqkv.count() == qkv.count());
  STRETTO_CHECK(dcontext.dtype == qkv.dtype && dcontext.count() == context.count());
  const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  const int64_t in_ld = shape.qkv_columns(), out_ld = shape.context_columns();
  const Matrices m(shape);
  WithType(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    ForEveryGroup(shape, qkv.rows(), [&](int64_t token, int64_t kv) {
      const int64_t at = token * in_ld + kv * (group + 2) * d;
      const T* const in = qkv.as<T>() + at;
      T* const din = dqkv.as<T>() + at;
      Load(shape, in, in_ld, group + 2, m.q);
      TransposeHead(shape, m.k, m.k_t);
      TransposeHead(shape, m.v, m.v_t);
      for (int64_t i = 0; i < group; ++i) {
        const int64_t head = kv * group + i, out_at = token * out_ld + head * d;
        Load(shape, dcontext.as<T>() + out_at, out_ld, 1, m.dout);
        Deltas(shape, m.dout, context.as<T>() + out_at, m.delta);
        BackwardHead(shape, HeadDraws(shape, dropout, keys, head, token),
                     Documents(documents, token), m, i == 0, m.q + i * m.elements,
                     LseOf(shape, lse, token, head), din + i * d);
      }
      Store(shape, m.dk, din + group * d, in_ld);
      Store(shape, m.dv, din + (group + 1) * d, in_ld);
    });
  });
}

}  // namespace stretto::cpu::STRETTO_CPU_OPS
