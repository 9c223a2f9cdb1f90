#pragma once
// Which tokens a training run sees, and in which order. A sample is sequence_length + 1 tokens of
// the data set's stream; sample i covers tokens [i*S, i*S + S]. Every epoch visits each sample
// once, in an order that is a pure function of (seed, epoch): a run that resumes needs only the
// number of samples consumed so far.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/data/indexed_dataset.h"

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

// Immutable and thread-safe. Borrows the data set.
class Sampler {
 public:
  // Errors: InvalidArgument (the data set is shorter than one sample).
  static absl::StatusOr<Sampler> Create(const IndexedDataset& dataset,
                                        const SamplerOptions& options);

  int64_t samples_per_epoch() const { return samples_per_epoch_; }

  // Fills `tokens` and `targets`, each [count, sequence_length] row-major, with the samples
  // consumed as numbers consumed ... consumed + count - 1; targets are the tokens shifted by one.
  // Errors: InvalidArgument (a token outside the vocabulary: names file, byte offset, found,
  // expected).
  absl::Status ReadBatch(int64_t consumed, int64_t count, int32_t* tokens, int32_t* targets) const;

 private:
  Sampler(const IndexedDataset* dataset, const SamplerOptions& options, int64_t samples_per_epoch)
      : dataset_(dataset), options_(options), samples_per_epoch_(samples_per_epoch) {}

  const IndexedDataset* dataset_;
  SamplerOptions options_;
  int64_t samples_per_epoch_;
};

}  // namespace stretto
