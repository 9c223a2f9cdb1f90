// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a model token by token: forward only, on the CPU, in f32, with a cache of keys and values of
// earlier positions. The computation is that of worker/engine/model.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/ops.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_source.h"
#include "worker/sample/cached_attention.h"
#include "worker/sample/team.h"

namespace stretto {

struct DecoderOptions {
  int threads = 0;           // 0: one per core
  int64_t memory_bytes = 0;  // maximum for weights; 0: the machine's memory
  // Called between layers; if it returns true, the call in progress ends with Cancelled. May be
  // empty.
  std::function<bool()> cancelled = {};
};

// Used by one thread at a time; products and heads are shared with its own threads. Memory: the
// weights once, in f32; keys and values of the prefix; activations of kPiece positions. Requires
// CpuSupported().
class Decoder {
 public:
  // Number of positions that pass through the model at a time.
  static constexpr int64_t kPiece = 128;

  // Reads all weights; `source` is not needed afterwards. Errors: ResourceExhausted (weights larger
  // than memory; names both numbers), Cancelled, those of ModelSource::Read.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(const ModelSource& source,
                                                       const DecoderOptions& options = {});

  const ModelSpec& model() const { return model_; }
  int threads() const { return team_.size(); }
  // Length of the prefix, at most model().sequence_length.
  int64_t position() const { return position_; }

  // Appends tokens to the prefix. `logits` has n * vocab_size elements, [n][vocab_size] without
  // padding, and receives those of the last n of these tokens. Errors: InvalidArgument (a token
  // outside the vocabulary), OutOfRange (the prefix would exceed the model's sequence length; names
  // found and expected), Cancelled (the prefix has some of the tokens).
  absl::Status Append(absl::Span<const int32_t> tokens, absl::Span<float> logits);

  // Empties the prefix.
  void Clear() { position_ = 0; }

 private:
  struct Activations;

  Decoder(const ModelSource& source, const DecoderOptions& options);
  absl::Status ReadWeights(const ModelSource& source, const DecoderOptions& options);
  absl::Status AppendPiece(absl::Span<const int32_t> tokens, absl::Span<float> logits);
  void Embed(absl::Span<const int32_t> tokens, float* x);
  void Attention(int layer, int64_t rows, const std::vector<float>& turns, Activations* a);
  void Mlp(int layer, int64_t rows, Activations* a);
  void Norm(int weight, int bias, int64_t rows, const float* x, float* y, float* stats);
  // y[rows, weight_rows] = (add ? y : 0) + x * W^T + bias, where W is the weight's first rows. bias
  // -1: none.
  void Multiply(int weight, int bias, int64_t weight_rows, int64_t rows, const float* x, bool add,
                float* y);
  const float* DataOf(int parameter) const;
  TensorView ViewOf(int parameter) const;
  absl::Status CheckGoingOn() const;

  const std::string name_;  // of the source, for errors
  const ModelSpec model_;
  const std::function<bool()> cancelled_;
  const std::vector<Parameter> parameters_;
  const ModelParameters ids_;
  const AttentionShape shape_;
  const std::unique_ptr<Ops> ops_;
  Team team_;
  std::vector<std::unique_ptr<float[]>> weights_;  // of parameters_
  std::vector<KeyValueCache> caches_;              // by layer
  int64_t position_ = 0;
};

}  // namespace stretto
