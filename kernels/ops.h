// SPDX-License-Identifier: Apache-2.0
#pragma once
// The mathematics of a step, one function per operation of the step program (ops.inc). A backend
// implements them all; the conformance suite compares every implementation with the CPU's.
//
// Shapes: n tokens (sequences x sequence_length, sequence-major), h hidden, c any width, v this
// rank's part of the padded vocabulary. T is the compute type, f32 or bf16; arithmetic inside an
// operation is f32. Gradients of parameters ("+=") are f32 and accumulate on what is there.
// A row's result depends on that row alone, never on how many rows the call has, so slices of a
// batch give the bits of the whole (exceptions are sums over rows, all marked +=, which add rows in
// ascending order). Shapes are proved by the program's verifier; functions CHECK, they do not fail.
//
// "Blocked" operands may be split by columns into p pieces that lie one after the other,
// [p][n][h/p] instead of [n,h] (a view of rank 3): what column splits leave behind.
//
// Deterministic: the same inputs give the same bits. No function allocates after its first call
// with a shape. Threads: calls on distinct outputs may run in several threads at once, each call
// uses one core.

#include <cstdint>

#include "kernels/rotary.h"
#include "kernels/tensor_view.h"

namespace stretto {

// Which rows of the vocabulary this rank holds: [start, start + v). Columns of logits at or above
// `size` are padding: masked out of the softmax, zero gradient.
struct VocabShard {
  int64_t start = 0;
  int64_t size = 0;
};

// Heads of this rank. Query heads share keys and values in groups of heads / kv_heads. A row of qkv
// holds, per key/value head, the queries of its group, then its key, then its value:
// [kv_heads][heads/kv_heads + 2][head_dim], so that a rank's shard is a range of key/value heads.
struct AttentionShape {
  int64_t sequence_length = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t first_head = 0;  // global number of this rank's first query head

  int64_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
  int64_t context_columns() const { return heads * head_dim; }
};

// What norms add to the variance unless told otherwise.
constexpr float kNormEpsilon = 1e-5f;

// Words of the i32 vector that keys random draws, written by the host for each micro-batch.
enum Key : int {
  kSeedLow,
  kSeedHigh,
  kStepNumber,
  kFirstToken,  // of the micro-batch, counted over the step
  kKeyCount,
};

// Inverted dropout with counter-based draws, so that every schedule, slicing and TP size drops the
// same elements. The draw for (token, column) is word column % 4 of Philox4x32-10 (Salmon et al.
// 2011) with key (kSeedLow, kSeedHigh) and counter (column / 4, token, site, kStepNumber); the
// element is dropped when it is below `threshold` and else scaled by scale(). The token of row r is
// kFirstToken + first_token + r. Attention drops probabilities: column is the key's position in its
// sequence, token the query's, and site gets (global query head + 1) << 16 added.
struct Dropout {
  int64_t threshold = 0;  // probability * 2^32; 0: off, no draws
  int64_t site = 0;       // distinct for every place of the model, below 2^16
  int64_t first_token = 0;

  bool on() const { return threshold > 0; }
  float scale() const {
    return static_cast<float>(4294967296.0 / (4294967296.0 - static_cast<double>(threshold)));
  }
};

// Indices into the f32 vector of per-step scalars, written by the host before a step.
enum Scalar : int {
  kLearningRate,
  kBeta1,
  kBeta2,
  kEpsilon,
  kWeightDecay,
  kBiasCorrection1,  // 1 - beta1^t
  kBiasCorrection2,  // 1 - beta2^t
  kClipNorm,         // 0: no clipping
  kLossWeight,  // gradient of the mean loss with respect to one token's: 1 / tokens of the step
  kScalarCount,
};

// Layout of the f32 vector that `Clip` writes.
enum ClipState : int {
  kGradNorm,
  kClipScale,  // factor on every gradient
  kUpdate,     // 1: apply the update, 0: the norm was not finite, skip it
  kClipStateCount,
};

class Ops {
 public:
  virtual ~Ops() = default;

  // Weights may have changed since the last call. Between two calls an implementation may keep what
  // it derives from a weight operand of Gemm and GemmDgrad (its packed form), by address; AdamW
  // drops what belongs to the weight it writes. An executor calls it at the start of every step.
  virtual void WeightsChanged() {}

#define STRETTO_OP(name, parameters, arguments) virtual void name parameters = 0;
#include "kernels/ops.inc"
#undef STRETTO_OP

  // What follows an all-reduce as one call: BiasResidual into `sum`, then the norm of `sum` into y,
  // with the bits of the two calls.
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
};

// f32 elements of scratch that a call of Attention or AttentionGrad with that many rows needs: two
// numbers for every query of every head.
constexpr int64_t AttentionScratch(const AttentionShape& shape, int64_t rows) {
  return 2 * rows * shape.heads;
}

}  // namespace stretto
