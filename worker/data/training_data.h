// SPDX-License-Identifier: Apache-2.0
#pragma once
// The data of a job: opened, checked, and cut into what is trained on and what is held out.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/sampler.h"
#include "worker/data/token_stream.h"

namespace stretto {

struct DataPart {
  std::string name;   // as OpenTokens takes it
  double weight = 1;  // as in Blend
};

struct DataConfig {
  std::string root;             // names are beneath it
  std::vector<DataPart> parts;  // at least one
  double held_out = 0;          // share of each part, at its end: 0 to 0.5
  int32_t sequence_length = 0;
  uint64_t seed = 0;
  int32_t vocab_size = 0;  // of the model without padding
  bool shuffle = true;     // as SamplerOptions::shuffle, of what is trained on
};

// Immutable; its samplers are thread-safe.
class TrainingData {
 public:
  // Opens every part, reads the first tokens of each for their values, and the tokenizers' notes
  // beside them. Held out is the share at the end of a part, from the first document on that begins
  // in the first half of it; where none does (long documents, or ones that the format does not
  // tell), from its first token on. Errors: those of OpenTokens and ReadTokenizerInfo,
  // InvalidArgument (less than one sample to train on or to hold out, a tokenizer with more tokens
  // than vocab_size, tokenizers that differ, a token outside the vocabulary).
  static absl::StatusOr<TrainingData> Open(const DataConfig& config);

  const Sampler& train() const { return *train_; }
  // In the order of the data, parts in their proportions. Null unless config.held_out is above 0.
  const Sampler* held_out() const { return held_out_.get(); }

  // Of all parts that have a tokenizer's note; empty if none has.
  const std::string& tokenizer_hash() const { return tokenizer_hash_; }
  // PREFIX of the first part with a note, absolute; empty if none has.
  const std::string& tokenizer_prefix() const { return tokenizer_prefix_; }

 private:
  TrainingData() = default;
  absl::Status ReadNote(const DataPart& part, const DataConfig& config);

  std::vector<std::unique_ptr<TokenStream>> streams_;
  std::unique_ptr<Sampler> train_, held_out_;
  std::string tokenizer_hash_, tokenizer_prefix_;
};

// InvalidArgument, naming both, unless the tokenizers are the same or one is not known.
absl::Status CheckSameTokenizer(const TrainingData& a, const TrainingData& b);

}  // namespace stretto
