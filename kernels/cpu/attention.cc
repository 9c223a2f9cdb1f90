// Causal attention per (sequence, head), in blocks of query rows: a block multiplies only the keys
// up to its end, about half of all. Backward recomputes the probabilities from lse, as in
// FlashAttention-2 (Dao 2023, section 3.1), and takes the blocks from last to first, so that the
// first one writes the gradient of every key and the rest add to it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_ops_impl.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/vector_math.h"

namespace stretto::cpu {

namespace {

constexpr int64_t kQueryBlock = 64;

// One head's [s, d] matrix of f32 with a row stride.
struct Head {
  float* data = nullptr;
  int64_t ld = 0;

  Operand Plain(int64_t row = 0) const { return {.data = data + row * ld, .ld = ld}; }
  Operand Transposed(int64_t row = 0) const {
    return {.data = data + row * ld, .ld = ld, .transposed = true};
  }
};

// f32 heads are used where they are; bf16 heads live in scratch, [s, d] dense.
Head Place(float* source, int64_t ld, const AttentionShape&, float*) { return {source, ld}; }
Head Place(BF16*, int64_t, const AttentionShape& shape, float* scratch) {
  return {scratch, shape.head_dim};
}

Head Load(float* source, int64_t ld, const AttentionShape&, float*) { return {source, ld}; }
Head Load(BF16* source, int64_t ld, const AttentionShape& shape, float* scratch) {
  for (int64_t row = 0; row < shape.sequence_length; ++row) {
    ToFloats(source + row * ld, shape.head_dim, scratch + row * shape.head_dim);
  }
  return {scratch, shape.head_dim};
}

void Store(const Head&, const AttentionShape&, float*, int64_t) {}
void Store(const Head& head, const AttentionShape& shape, BF16* target, int64_t ld) {
  for (int64_t row = 0; row < shape.sequence_length; ++row) {
    FromFloats(head.data + row * head.ld, shape.head_dim, target + row * ld);
  }
}

// Scores of one query over its `valid` keys become exp(score - max); keys after that up to `width`
// become 0. Returns the sum; *max is the largest score.
float SoftmaxRow(float* x, int64_t valid, int64_t width, float* max) {
  const float top = RowMax(x, valid);
  // Up to the next multiple of 8, so that the vector loop has no remainder: exp(-inf) is 0.
  const int64_t padded = std::min((valid + 7) / 8 * 8, width);
  for (int64_t i = valid; i < padded; ++i) x[i] = -std::numeric_limits<float>::infinity();
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < padded; ++i) {
    x[i] = Exp(x[i] - top);
    sum += x[i];
  }
  std::memset(x + padded, 0, static_cast<size_t>(width - padded) * sizeof(float));
  *max = top;
  return sum;
}

// Scores become probabilities p = exp(score - lse); gradients of p become those of the scores times
// scale, p * (dp - delta) * scale. Both are 0 after the valid keys.
void ScoreGradRow(float* x, float* dp, int64_t valid, int64_t width, float lse, float delta,
                  float scale) {
  const int64_t padded = std::min((valid + 7) / 8 * 8, width);
  for (int64_t i = valid; i < padded; ++i) x[i] = -std::numeric_limits<float>::infinity();
#pragma omp simd
  for (int64_t i = 0; i < padded; ++i) {
    x[i] = Exp(x[i] - lse);
    dp[i] = x[i] * (dp[i] - delta) * scale;
  }
  const auto rest = static_cast<size_t>(width - padded) * sizeof(float);
  std::memset(x + padded, 0, rest);
  std::memset(dp + padded, 0, rest);
}

float Dot(const float* a, const float* b, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

float ScaleOf(const AttentionShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
}

void ForwardHead(const AttentionShape& shape, const Head& q, const Head& k, const Head& v,
                 const Head& out, float* lse, float* scores) {
  const int64_t s = shape.sequence_length, d = shape.head_dim;
  for (int64_t first = 0; first < s; first += kQueryBlock) {
    const int64_t end = std::min(first + kQueryBlock, s), rows = end - first;
    Multiply(rows, end, d, ScaleOf(shape), q.Plain(first), k.Transposed(), 0.0f, scores, end);
    float inverse[kQueryBlock];
    for (int64_t row = 0; row < rows; ++row) {
      float max = 0;
      const float sum = SoftmaxRow(scores + row * end, first + row + 1, end, &max);
      lse[(first + row) * shape.heads] = max + std::log(sum);
      inverse[row] = 1.0f / sum;
    }
    Multiply(rows, d, end, 1.0f, {.data = scores, .ld = end}, v.Plain(), 0.0f,
             out.data + first * out.ld, out.ld);
    for (int64_t row = 0; row < rows; ++row) {
      float* o = out.data + (first + row) * out.ld;
#pragma omp simd
      for (int64_t i = 0; i < d; ++i) o[i] *= inverse[row];
    }
  }
}

struct HeadGrad {
  Head q, k, v, out, dout, dq, dk, dv;
};

void BackwardHead(const AttentionShape& shape, const HeadGrad& head, const float* lse,
                  float* scores, float* dp) {
  const int64_t s = shape.sequence_length, d = shape.head_dim;
  const float scale = ScaleOf(shape);
  float beta = 0.0f;
  for (int64_t first = (s - 1) / kQueryBlock * kQueryBlock; first >= 0; first -= kQueryBlock) {
    const int64_t end = std::min(first + kQueryBlock, s), rows = end - first;
    Multiply(rows, end, d, scale, head.q.Plain(first), head.k.Transposed(), 0.0f, scores, end);
    Multiply(rows, end, d, 1.0f, head.dout.Plain(first), head.v.Transposed(), 0.0f, dp, end);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = first + row;
      const float delta =
          Dot(head.dout.data + at * head.dout.ld, head.out.data + at * head.out.ld, d);
      ScoreGradRow(scores + row * end, dp + row * end, at + 1, end, lse[at * shape.heads], delta,
                   scale);
    }
    const Operand p_transposed{.data = scores, .ld = end, .transposed = true};
    const Operand ds{.data = dp, .ld = end},
        ds_transposed{.data = dp, .ld = end, .transposed = true};
    Multiply(rows, d, end, 1.0f, ds, head.k.Plain(), 0.0f, head.dq.data + first * head.dq.ld,
             head.dq.ld);
    Multiply(end, d, rows, 1.0f, ds_transposed, head.q.Plain(first), beta, head.dk.data,
             head.dk.ld);
    Multiply(end, d, rows, 1.0f, p_transposed, head.dout.Plain(first), beta, head.dv.data,
             head.dv.ld);
    beta = 1.0f;
  }
}

void CheckShapes(const AttentionShape& shape, const TensorView& qkv, const TensorView& context,
                 const TensorView& lse, const TensorView& scratch) {
  const int64_t width = shape.heads * shape.head_dim;
  STRETTO_CHECK(qkv.columns() == 3 * width && context.columns() == width);
  STRETTO_CHECK(qkv.dtype == context.dtype && qkv.rows() == context.rows());
  STRETTO_CHECK(qkv.rows() % shape.sequence_length == 0);
  STRETTO_CHECK(lse.dtype == DType::kF32 && lse.count() == qkv.rows() * shape.heads);
  STRETTO_CHECK(scratch.dtype == DType::kF32 && scratch.count() >= AttentionScratch(shape));
}

}  // namespace

void CpuOps::Attention(AttentionShape shape, TensorView qkv, TensorView context, TensorView lse,
                       TensorView scratch) {
  CheckShapes(shape, qkv, context, lse, scratch);
  const int64_t s = shape.sequence_length, d = shape.head_dim, width = shape.heads * d;
  float* const scores = scratch.as<float>();
  float* const heads = scores + 2 * s * s;
  WithType(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t token = 0; token < qkv.rows(); token += s) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        T* const in = qkv.as<T>() + token * 3 * width + head * d;
        T* const out = context.as<T>() + token * width + head * d;
        const Head q = Load(in, 3 * width, shape, heads);
        const Head k = Load(in + width, 3 * width, shape, heads + s * d);
        const Head v = Load(in + 2 * width, 3 * width, shape, heads + 2 * s * d);
        const Head o = Place(out, width, shape, heads + 3 * s * d);
        ForwardHead(shape, q, k, v, o, lse.as<float>() + token * shape.heads + head, scores);
        Store(o, shape, out, width);
      }
    }
  });
}

void CpuOps::AttentionGrad(AttentionShape shape, TensorView dcontext, TensorView qkv,
                           TensorView context, TensorView lse, TensorView dqkv,
                           TensorView scratch) {
  CheckShapes(shape, qkv, context, lse, scratch);
  STRETTO_CHECK(dqkv.dtype == qkv.dtype && dqkv.count() == qkv.count());
  STRETTO_CHECK(dcontext.dtype == qkv.dtype && dcontext.count() == context.count());
  const int64_t s = shape.sequence_length, d = shape.head_dim, width = shape.heads * d;
  float* const scores = scratch.as<float>();
  float* const dp = scores + s * s;
  float* const heads = scores + 2 * s * s;
  const auto slot = [&](int64_t index) { return heads + index * s * d; };
  WithType(qkv.dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t token = 0; token < qkv.rows(); token += s) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        T* const in = qkv.as<T>() + token * 3 * width + head * d;
        T* const din = dqkv.as<T>() + token * 3 * width + head * d;
        const int64_t at = token * width + head * d;
        const HeadGrad grad = {.q = Load(in, 3 * width, shape, slot(0)),
                               .k = Load(in + width, 3 * width, shape, slot(1)),
                               .v = Load(in + 2 * width, 3 * width, shape, slot(2)),
                               .out = Load(context.as<T>() + at, width, shape, slot(3)),
                               .dout = Load(dcontext.as<T>() + at, width, shape, slot(4)),
                               .dq = Place(din, 3 * width, shape, slot(5)),
                               .dk = Place(din + width, 3 * width, shape, slot(6)),
                               .dv = Place(din + 2 * width, 3 * width, shape, slot(7))};
        BackwardHead(shape, grad, lse.as<float>() + token * shape.heads + head, scores, dp);
        Store(grad.dq, shape, din, 3 * width);
        Store(grad.dk, shape, din + width, 3 * width);
        Store(grad.dv, shape, din + 2 * width, 3 * width);
      }
    }
  });
}

}  // namespace stretto::cpu
