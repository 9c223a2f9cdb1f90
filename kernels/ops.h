// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mathematics of a step, one function per operation of the step program (ops.inc). A backend
// implements all of them; the conformance suite compares every implementation with the CPU's.
//
// Shapes: n tokens (sequences x sequence_length, sequence-major), h hidden, c any width, v this
// rank's part of the padded vocabulary. T is the compute type, f32 or bf16; arithmetic inside an
// operation is f32. Gradients of parameters ("+=") are f32 and are added to the present contents. A
// row's result depends only on that row, never on the number of rows in the call, so slices of a
// batch are bitwise equal to the whole. The exceptions are sums over rows, all marked +=, which add
// rows in ascending order. The program's verifier proves shapes; functions CHECK and do not fail.
//
// "Blocked" operands may be split by columns into p pieces that are stored one after the other,
// [p][n][h/p] instead of [n,h] (a view of rank 3): the result of column splits.
//
// Deterministic: the same inputs give the same bits. No function allocates after its first call
// with a shape. Calls on distinct outputs may run in several threads at once; each call uses one
// core.

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/rotary.h"
#include "kernels/tensor_view.h"

namespace stretto {

// The rows of the vocabulary that this rank holds: [start, start + v). Columns of logits at or
// above `size` are padding: they are masked out of the softmax and have zero gradient.
struct VocabShard {
  int64_t start = 0;
  int64_t size = 0;
};

// The heads of this rank. Query heads share keys and values in groups of heads / kv_heads. A row of
// qkv has, per key/value head, the queries of its group, then its key, then its value:
// [kv_heads][heads/kv_heads + 2][head_dim], so that a rank's shard is a range of key/value heads.
struct AttentionShape {
  int64_t sequence_length = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t first_head = 0;  // global number of this rank's first query head
  // Elements that the scratch of AttentionGrad has for a library's kernels (LibraryScratch). 0: the
  // gradient is computed by our kernels.
  int64_t library_scratch = 0;

  int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
  int64_t context_columns() const { return heads * head_dim; }
  // Of the products of queries and keys.
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

// The number that norms add to the variance by default.
constexpr float kNormEpsilon = 1e-5f;

// Words of the i32 vector that keys random draws. The host writes them for each micro-batch.
enum Key : int {
  kSeedLow,
  kSeedHigh,
  kStepNumber,
  kFirstToken,  // of the micro-batch, counted over the step
  kKeyCount,
};

// Inverted dropout with counter-based draws, so that every schedule, slicing and TP size drops the
// same elements. The draw for (token, column) is word column % 4 of Philox4x32-10 (Salmon et al.
// 2011) with key (kSeedLow, kSeedHigh) and counter (column / 4, token, site, kStepNumber). The
// element is dropped if the draw is below `threshold`, and otherwise multiplied by scale(). The
// token of row r is kFirstToken + first_token + r. Attention drops probabilities: column is the
// key's position in its sequence, token is the query's, and site has (global query head + 1) << 16
// added.
struct Dropout {
  int64_t threshold = 0;  // probability * 2^32; 0: off, no draws
  int64_t site = 0;       // distinct for every place of the model, below 2^16
  int64_t first_token = 0;

  bool on() const { return threshold > 0; }
  float scale() const {
    return static_cast<float>(4294967296.0 / (4294967296.0 - static_cast<double>(threshold)));
  }
};

// Indices into the f32 vector of per-step scalars, which the host writes before a step.
enum Scalar : int {
  kLearningRate,
  kBeta1,
  kBeta2,
  kEpsilon,
  kWeightDecay,
  kBiasCorrection1,  // 1 - beta1^t
  kBiasCorrection2,  // 1 - beta2^t
  kClipNorm,         // 0: no clipping
  kLossWeight,  // gradient of the mean loss with respect to one token's: 1 / targets of the step
  kScalarCount,
};

// Layout of the f32 vector that `Clip` writes.
enum ClipState : int {
  kGradNorm,
  kClipScale,  // factor on every gradient
  kUpdate,     // 1: apply the update; 0: skip it, the norm was not finite
  kClipStateCount,
};

// A box of one tensor and the same box of another: where it starts in each, and its extents. The
// dimensions of a tensor that has fewer come first; the others have start 0 and extent 1.
struct BoxCopy {
  std::array<int64_t, 4> from = {}, to = {}, extents = {1, 1, 1, 1};
};

class Ops {
 public:
  virtual ~Ops() = default;

  // Tells the implementation that weights may have changed since the last call. Between two calls
  // it may cache what it derives from a weight operand of Gemm and GemmDgrad (its packed form), by
  // address; AdamW discards the cache of the weight that it writes. An executor calls this at the
  // start of every step.
  virtual void WeightsChanged() {}

#define STRETTO_OP(name, parameters, arguments) virtual void name parameters = 0;
#include "kernels/ops.inc"
#undef STRETTO_OP

  // The two operations after an all-reduce as one call: BiasResidual into `sum`, then the norm of
  // `sum` into y. The results are bitwise equal to those of the two calls.
  virtual void BiasResidualLayerNorm(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                                     TensorView keys, TensorView sum, TensorView w, TensorView b,
                                     float epsilon, TensorView y, TensorView stats) {
    BiasResidual(r, bias, x, dropout, keys, sum);
    LayerNorm(sum, w, b, epsilon, y, stats);
  }
  virtual void BiasResidualRmsNorm(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                                   TensorView keys, TensorView sum, TensorView w, float epsilon,
                                   TensorView y, TensorView rstd) {
    BiasResidual(r, bias, x, dropout, keys, sum);
    RmsNorm(sum, w, epsilon, y, rstd);
  }
  // Both gradients of a norm as one call, which reads dy and x once. The results are bitwise equal
  // to those of the two calls.
  virtual void LayerNormGrads(TensorView dy, TensorView x, TensorView w, TensorView stats,
                              TensorView residual, TensorView dx, TensorView dw, TensorView db) {
    LayerNormDgrad(dy, x, w, stats, residual, dx);
    LayerNormWgrad(dy, x, stats, dw, db);
  }
  virtual void RmsNormGrads(TensorView dy, TensorView x, TensorView w, TensorView rstd,
                            TensorView residual, TensorView dx, TensorView dw) {
    RmsNormDgrad(dy, x, w, rstd, residual, dx);
    RmsNormWgrad(dy, x, rstd, dw);
  }
};

// Returns the f32 elements of scratch that a call of Attention or AttentionGrad with `rows` rows
// needs: two numbers for every query of every head, or what a library needs.
constexpr int64_t AttentionScratch(const AttentionShape& shape, int64_t rows) {
  const int64_t own = 2 * rows * shape.heads;
  return own < shape.library_scratch ? shape.library_scratch : own;
}

// Returns the most sequences that one launch of cuDNN's attention takes. A launch has a tile for
// 128 queries of a head, and the tiles of a sequence with few heads do not fill a GPU. Where
// several keys have several queries each, its tensors have no stride for sequences
// (cudnn/sdpa_plan.h).
constexpr int64_t LibrarySequences(const AttentionShape& shape) {
  constexpr int64_t kTiles = 512, kMost = 16;
  if (shape.kv_heads > 1 && shape.kv_heads < shape.heads) return 1;
  const int64_t tiles = shape.heads * ((shape.sequence_length + 127) / 128);
  const int64_t sequences = kTiles / tiles;
  return sequences < 1 ? 1 : sequences > kMost ? kMost : sequences;
}

// Returns the bytes, aligned to 256, that cuDNN needs for the gradient of `sequences` sequences in
// bf16. Its gradients of queries are f32 sums, and the order of their terms varies. A `repeatable`
// one keeps the gradients of all scores instead, padded to its tiles. Queries that share a key have
// gradients of their own before these are added up.
constexpr int64_t LibraryScratchBytes(const AttentionShape& shape, bool repeatable,
                                      int64_t sequences) {
  const auto padded = [&](int64_t tile) {
    return (shape.sequence_length + tile - 1) / tile * tile;
  };
  const int64_t queries = shape.heads * shape.sequence_length;
  const int64_t key_gradients = shape.kv_heads < shape.heads ? 2 * queries * shape.head_dim : 0;
  return 256 + sequences * (2 * key_gradients + 4 * queries +
                            (repeatable ? 2 * shape.heads * padded(64) * padded(128)
                                        : 4 * queries * shape.head_dim));
}

// Returns AttentionShape::library_scratch: memory for a launch at any address. Repeatable ones need
// so much that each takes one sequence.
constexpr int64_t LibraryScratch(const AttentionShape& shape, bool repeatable) {
  const int64_t sequences = repeatable ? 1 : LibrarySequences(shape);
  return (LibraryScratchBytes(shape, repeatable, sequences) + 256 + 3) / 4;
}

}  // namespace stretto
