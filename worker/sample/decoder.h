// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model that is run token by token: forward alone, on the CPU, in f32, with what attention needs
// of the positions before kept. The mathematics is that of worker/engine/model.

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
  int64_t memory_bytes = 0;  // that weights may take; 0: what the machine has
  // Asked between layers; once true, what runs ends with Cancelled. May be empty.
  std::function<bool()> cancelled = {};
};

// One thread uses it at a time; products and heads are shared with threads of its own. Memory: the
// weights once, in f32; keys and values of the prefix; activations of kPiece positions.
// CpuSupported() first.
class Decoder {
 public:
  // Positions that go through the model at a time.
  static constexpr int64_t kPiece = 128;

  // Reads all weights; `source` is not needed any more after that. Errors: ResourceExhausted
  // (weights larger than memory: both numbers), Cancelled, those of ModelSource::Read.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(const ModelSource& source,
                                                       const DecoderOptions& options = {});

  const ModelSpec& model() const { return model_; }
  int threads() const { return team_.size(); }
  // Length of the prefix, at most model().sequence_length.
  int64_t position() const { return position_; }

  // Appends tokens to the prefix. `logits` has a multiple of vocab_size elements and gets those of
  // the last so many of these tokens, [tokens][vocab_size]: of no padding. Errors: InvalidArgument
  // (a token outside the vocabulary), OutOfRange (the prefix would exceed the model's sequence
  // length; names found and expected), Cancelled (the prefix has some of the tokens).
  absl::Status Append(absl::Span<const int32_t> tokens, absl::Span<float> logits);

  // The prefix is empty again.
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
  // y[rows, weight_rows] = (add ? y : 0) + x * W^T + bias, W the weight's first rows. bias -1:
  // none.
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
