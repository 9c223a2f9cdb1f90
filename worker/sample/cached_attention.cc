// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/cached_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/matmul.h"
#include "proto/base/check.h"

namespace stretto {
namespace {

// Appends the keys or values of a position: head_dim columns from each stride, starting at `from`.
void Append(const AttentionShape& shape, const float* from, std::vector<float>* kept) {
  const int64_t stride = (shape.heads / shape.kv_heads + 2) * shape.head_dim;
  for (int64_t head = 0; head < shape.kv_heads; ++head, from += stride) {
    kept->insert(kept->end(), from, from + shape.head_dim);
  }
}

// Replaces x by softmax(x) over its first `valid` elements, and 0 after them.
void Softmax(int64_t valid, int64_t count, float* x) {
  const float top = *std::max_element(x, x + valid);
  float sum = 0;
  for (int64_t i = 0; i < valid; ++i) {
    x[i] = std::exp(x[i] - top);
    sum += x[i];
  }
  for (int64_t i = 0; i < valid; ++i) x[i] /= sum;
  std::fill(x + valid, x + count, 0.0f);
}

void AttendHead(const AttentionShape& shape, int64_t first, int64_t rows, const float* qkv,
                const KeyValueCache& cache, int64_t head, std::vector<float>* scores,
                float* context) {
  const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads, kv = head / group;
  const int64_t keys = first + rows, kept_columns = shape.kv_heads * d;
  const float* const q = qkv + (kv * (group + 2) + head % group) * d;
  scores->resize(rows * keys);
  cpu::Multiply(rows, keys, d, shape.scale(), {.data = q, .ld = shape.qkv_columns()},
                {.data = cache.keys.data() + kv * d, .ld = kept_columns, .transposed = true}, 0,
                scores->data(), keys);
  for (int64_t row = 0; row < rows; ++row) {
    Softmax(first + row + 1, keys, scores->data() + row * keys);
  }
  cpu::Multiply(rows, d, keys, 1, {.data = scores->data(), .ld = keys},
                {.data = cache.values.data() + kv * d, .ld = kept_columns}, 0, context + head * d,
                shape.context_columns());
}

}  // namespace

void AttendCached(const AttentionShape& shape, int64_t first, int64_t rows, const float* qkv,
                  KeyValueCache* cache, float* context, Team* team) {
  const int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  const size_t kept = first * shape.kv_heads * d;
  STRETTO_CHECK(cache->keys.size() >= kept && cache->values.size() >= kept);
  cache->keys.resize(kept);
  cache->values.resize(kept);
  for (int64_t row = 0; row < rows; ++row) {
    const float* const in = qkv + row * shape.qkv_columns();
    Append(shape, in + group * d, &cache->keys);
    Append(shape, in + (group + 1) * d, &cache->values);
  }
  team->Run(shape.heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scores;
    for (int64_t head = begin; head < end; ++head) {
      AttendHead(shape, first, rows, qkv, *cache, head, &scores, context);
    }
  });
}

}  // namespace stretto
