// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which tokens a training run sees, and in which order. A sample is sequence_length + 1 tokens of a
// stream; sample i covers tokens [i*S, i*S + S]. Every epoch visits each sample once, in an order
// that is a pure function of (seed, epoch): a run that resumes needs only the number of samples
// consumed so far. Of several streams each has epochs of its own, and a Blend says whose turn it
// is. Documents lie behind each other: a sample may hold the end of one and the beginning of the
// next, and attention sees both.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/blend.h"
#include "worker/data/token_stream.h"

namespace stretto {

// Position of `index` in a pseudo-random permutation of [0, count) chosen by (seed, epoch).
// A Feistel network over the next even power of two with Philox as its round function, repeated
// until the value falls into the range (cycle walking; Black and Rogaway, "Ciphers with arbitrary
// finite domains", CT-RSA 2002, section 3). Needs no memory. 0 <= index < count.
int64_t Permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

// The sample that is consumed as number `consumed` (from 0, over all epochs) of
// `samples_per_epoch`.
int64_t SampleIndex(uint64_t seed, int64_t samples_per_epoch, int64_t consumed);

struct SamplerOptions {
  int32_t sequence_length = 0;
  uint64_t seed = 0;
  int32_t vocab_size = 0;  // of the model without padding; a greater token is an error
  bool shuffle = true;     // false: samples in the order of the data, again and again
};

// Tokens [begin, end) of a stream.
struct SampledTokens {
  const TokenStream* tokens = nullptr;
  int64_t begin = 0, end = 0;
  double weight = 1;  // its share of the samples, relative to the others: finite, above 0
};

// Immutable and thread-safe. Borrows the streams.
class Sampler {
 public:
  // Errors: InvalidArgument (a part is shorter than one sample).
  static absl::StatusOr<Sampler> Create(const std::vector<SampledTokens>& parts,
                                        const SamplerOptions& options);
  // All of one stream.
  static absl::StatusOr<Sampler> Create(const TokenStream& tokens, const SamplerOptions& options);

  // Of all parts together. Of one part every epoch has each sample once; of several the heavier
  // ones begin anew earlier.
  int64_t samples_per_epoch() const;

  // Fills `tokens` and `targets`, each [count, sequence_length] row-major, with the samples
  // consumed as numbers consumed ... consumed + count - 1; targets are the tokens shifted by one.
  // Errors: InvalidArgument (a token outside the vocabulary: names file, byte offset, found,
  // expected).
  absl::Status ReadBatch(int64_t consumed, int64_t count, int32_t* tokens, int32_t* targets) const;

  // The stream and the position of the first token of the sample consumed as that number.
  std::pair<const TokenStream*, int64_t> Locate(int64_t consumed) const;

 private:
  struct Part {
    const TokenStream* tokens;
    int64_t begin;
    int64_t samples;  // per epoch
    uint64_t seed;
  };
  Sampler(std::vector<Part> parts, Blend blend, const SamplerOptions& options)
      : parts_(std::move(parts)), blend_(std::move(blend)), options_(options) {}

  std::vector<Part> parts_;
  Blend blend_;
  SamplerOptions options_;
};

}  // namespace stretto
