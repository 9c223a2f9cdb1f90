#pragma once
// The mathematics of a step, one function per operation of the step program. A backend implements
// them all; the conformance suite compares every implementation with the CPU's.
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

  // y[n,c] = x[n,k] * w[c,k]^T (+ bias[c] where bias.data is set).
  virtual void Gemm(TensorView x, TensorView w, TensorView bias, TensorView y) = 0;
  // dx[n,kp] = dy[n,c] * w[c, first_column .. first_column + kp), w is [c,k].
  virtual void GemmDgrad(TensorView dy, TensorView w, int64_t first_column, TensorView dx) = 0;
  // dw[c,k] (f32) += dy[n,c]^T * x[n,k].
  virtual void GemmWgrad(TensorView dy, TensorView x, TensorView dw) = 0;
  // db[c] (f32) += column sums of dy[n,c].
  virtual void BiasGrad(TensorView dy, TensorView db) = 0;

  // y[n,h] = table[token - start] where this rank holds the token, else 0. tokens: i32[n].
  virtual void Embed(TensorView tokens, TensorView table, VocabShard vocab, TensorView y) = 0;
  // dtable (f32) += dx[row] at the token's row, rows ascending.
  virtual void EmbedGrad(TensorView tokens, TensorView dx, VocabShard vocab, TensorView dtable) = 0;
  // x[n,h] += position[(first_token + r) % s] in row r, in place; position is [s,h].
  virtual void AddPosition(TensorView position, int64_t first_token, TensorView x) = 0;
  // dposition[s,h] (f32) += dx at the position of each row, rows ascending.
  virtual void PositionGrad(TensorView dx, int64_t first_token, TensorView dposition) = 0;

  // y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(variance + epsilon), over the last dimension;
  // stats f32[n,2] = (mean, rstd).
  virtual void LayerNorm(TensorView x, TensorView w, TensorView b, float epsilon, TensorView y,
                         TensorView stats) = 0;
  // dx = residual (where set) + gradient of LayerNorm with respect to x. dx may be residual. dy may
  // be blocked.
  virtual void LayerNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView stats,
                              TensorView residual, TensorView dx) = 0;
  // dw += sum of dy * normalised x, db += sum of dy (both f32[h]). dy may be blocked.
  virtual void LayerNormWgrad(TensorView dy, TensorView x, TensorView stats, TensorView dw,
                              TensorView db) = 0;
  // y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + epsilon) over the last dimension (Zhang &
  // Sennrich 2019); rstd f32[n]. The gradients are as for LayerNorm.
  virtual void RmsNorm(TensorView x, TensorView w, float epsilon, TensorView y,
                       TensorView rstd) = 0;
  virtual void RmsNormDgrad(TensorView dy, TensorView x, TensorView w, TensorView rstd,
                            TensorView residual, TensorView dx) = 0;
  virtual void RmsNormWgrad(TensorView dy, TensorView x, TensorView rstd, TensorView dw) = 0;

  // y = x + dropout(r + bias[h]): what follows a row-parallel linear. r may be blocked; bias.data
  // may be null. keys is read where dropout is on.
  virtual void BiasResidual(TensorView r, TensorView bias, TensorView x, Dropout dropout,
                            TensorView keys, TensorView y) = 0;
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
  // y = dropout(x), also its own gradient. y may be x.
  virtual void DropElements(TensorView x, Dropout dropout, TensorView keys, TensorView y) = 0;
  // GELU, tanh approximation: a = u/2 (1 + tanh(sqrt(2/pi) (u + 0.044715 u^3))).
  virtual void Gelu(TensorView u, TensorView a) = 0;
  // du = da * gelu'(u); du may be da.
  virtual void GeluGrad(TensorView u, TensorView da, TensorView du) = 0;
  // SwiGLU (Shazeer 2020): u[n,2f] = gate | up, a[n,f] = gate * sigmoid(gate) * up.
  virtual void SwiGlu(TensorView u, TensorView a) = 0;
  // du[n,2f] from da[n,f].
  virtual void SwiGluGrad(TensorView u, TensorView da, TensorView du) = 0;

  // Rotary embedding (Su et al. 2021) of queries and keys, in place, by the position r %
  // sequence_length of row r: columns i and i + head_dim/2 of a head turn by position *
  // RotaryFrequency(i), as in Llama. `inverse` turns back: the gradient.
  virtual void Rotary(AttentionShape shape, const RotarySpeed& speed, bool inverse,
                      TensorView qkv) = 0;
  // Causal self-attention per sequence and head, scale 1/sqrt(head_dim), with dropout of
  // probabilities (keys is read where it is on). qkv[n, qkv_columns()], context[n,
  // context_columns()]; lse f32[n, heads] = log of the softmax denominator, max included, before
  // dropout. scratch: f32, AttentionScratch elements.
  virtual void Attention(AttentionShape shape, Dropout dropout, TensorView keys, TensorView qkv,
                         TensorView context, TensorView lse, TensorView scratch) = 0;
  virtual void AttentionGrad(AttentionShape shape, Dropout dropout, TensorView keys,
                             TensorView dcontext, TensorView qkv, TensorView context,
                             TensorView lse, TensorView dqkv, TensorView scratch) = 0;

  // Vocabulary-parallel cross-entropy; between these calls the ranks exchange maxima and sums.
  // max f32[n] = row maximum over this rank's real columns (-inf where it has none).
  virtual void CrossEntropyMax(TensorView logits, VocabShard vocab, TensorView max) = 0;
  // sums f32[n,2] = (sum of exp(logit - max), target's logit - max, 0 where another rank has it).
  virtual void CrossEntropySum(TensorView logits, TensorView max, TensorView targets,
                               VocabShard vocab, TensorView sums) = 0;
  // loss f32[n] = log(sum) - target, from the sums over all ranks.
  virtual void CrossEntropyLoss(TensorView sums, TensorView loss) = 0;
  // logits become their gradient, in place: (softmax - onehot) * scalars[kLossWeight]; padding 0.
  virtual void CrossEntropyGrad(TensorView max, TensorView sums, TensorView targets,
                                TensorView scalars, VocabShard vocab, TensorView logits) = 0;

  virtual void Zero(TensorView x) = 0;
  // *out (f32[1]) = sum of squares of x (f32), summed in f64.
  virtual void SumSquares(TensorView x, TensorView out) = 0;
  // *out (f32[1]) = sum of parts (f32), in f64, ascending.
  virtual void Sum(TensorView parts, TensorView out) = 0;
  // state (ClipState) from the sum of squares over all ranks and scalars[kClipNorm]. The scale is
  // min(1, clip / (norm + 1e-6)), as in torch.nn.utils.clip_grad_norm_.
  virtual void Clip(TensorView sum_squares, TensorView scalars, TensorView state) = 0;
  // AdamW (Loshchilov & Hutter 2019; decoupled decay, as torch.optim.AdamW), unless
  // state[kUpdate] is 0. master, m, v are f32 and in place; weight (T) gets the rounded master and
  // may be master itself (f32). decay: whether weight decay applies.
  virtual void AdamW(TensorView grad, TensorView state, TensorView scalars, bool decay,
                     TensorView master, TensorView m, TensorView v, TensorView weight) = 0;
};

// f32 elements of scratch that a call of Attention or AttentionGrad with that many rows needs: two
// numbers for every query of every head.
constexpr int64_t AttentionScratch(const AttentionShape& shape, int64_t rows) {
  return 2 * rows * shape.heads;
}

}  // namespace stretto
