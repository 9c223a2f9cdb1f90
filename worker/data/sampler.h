// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tokens that a training run reads, and their order. A sample is sequence_length + 1 tokens of
// a stream; sample i is tokens [i*S, i*S + S]. Every epoch visits each sample once, in an order
// that is a pure function of (seed, epoch), so a run that resumes needs only the number of samples
// consumed so far. With several streams, each has its own epochs, and a Blend chooses the next
// stream. Documents are contiguous: a sample may contain the end of one and the beginning of the
// next. Attention sees both, unless the job masks documents.

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/blend.h"
#include "worker/data/token_stream.h"

namespace stretto {

// Returns the position of `index` in a pseudo-random permutation of [0, count) chosen by (seed,
// epoch): a Feistel network over the next even power of two with Philox as its round function,
// repeated until the value is in range (cycle walking; Black and Rogaway, "Ciphers with arbitrary
// finite domains", CT-RSA 2002, section 3). Needs no memory. 0 <= index < count.
int64_t Permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

// Returns the sample that is consumed as number `consumed` (from 0, over all epochs) of
// `samples_per_epoch`.
int64_t SampleIndex(uint64_t seed, int64_t samples_per_epoch, int64_t consumed);

struct SamplerOptions {
  int32_t sequence_length = 0;
  uint64_t seed = 0;
  int32_t vocab_size = 0;  // of the model without padding; a larger token is an error
  bool shuffle = true;     // false: samples repeat in the order of the data
};

// Tokens [begin, end) of a stream.
struct SampledTokens {
  const TokenStream* tokens = nullptr;
  int64_t begin = 0, end = 0;
  double weight = 1;                  // relative share of the samples: finite, above 0
  const TokenStream* mask = nullptr;  // which of the tokens are trained on (mask.h); null: all
};

// The target in place of a token that is not trained on.
inline constexpr int32_t kMaskedTarget = -1;

// Immutable and thread-safe. Borrows the streams.
class Sampler {
 public:
  // Errors: InvalidArgument (a part is shorter than one sample).
  static absl::StatusOr<Sampler> Create(const std::vector<SampledTokens>& parts,
                                        const SamplerOptions& options);
  // Samples all of one stream.
  static absl::StatusOr<Sampler> Create(const TokenStream& tokens, const SamplerOptions& options);

  // The number of samples of all parts together. With one part, every epoch has each sample once;
  // with several, heavier parts start their next epoch earlier.
  int64_t samples_per_epoch() const;

  // Fills `tokens` and `targets`, each [count, sequence_length] row-major, with the samples number
  // consumed ... consumed + count - 1. Targets are the tokens shifted by one, or kMaskedTarget.
  // A null pointer leaves out its half, and with two nothing is read. Errors:
  // InvalidArgument (a token outside the vocabulary; names file, byte offset, found, expected).
  absl::Status ReadBatch(int64_t consumed, int64_t count, int32_t* tokens, int32_t* targets) const;

  // Fills `documents`, [count, sequence_length], for the same samples: where in its sequence the
  // document of each token begins; 0 for one that began before the sequence. A null pointer: does
  // nothing.
  void FindDocuments(int64_t consumed, int64_t count, int32_t* documents) const;

  // Returns how many targets of these samples are not masked. Reads nothing where there is no mask.
  // Errors: those of ReadBatch.
  absl::StatusOr<int64_t> CountTargets(int64_t consumed, int64_t count) const;

  // Returns the stream, and the position of the first token, of the sample with that number.
  std::pair<const TokenStream*, int64_t> Locate(int64_t consumed) const;

 private:
  struct Part {
    const TokenStream* tokens;
    const TokenStream* mask;
    int64_t begin;
    int64_t samples;  // per epoch
    uint64_t seed;
  };
  // Returns its part, and the position of its first token.
  std::pair<const Part*, int64_t> Find(int64_t consumed) const;
  Sampler(std::vector<Part> parts, Blend blend, const SamplerOptions& options)
      : parts_(std::move(parts)), blend_(std::move(blend)), options_(options) {}

  std::vector<Part> parts_;
  Blend blend_;
  SamplerOptions options_;
};

}  // namespace stretto
