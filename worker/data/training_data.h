// SPDX-License-Identifier: Apache-2.0
#pragma once
// The data of a job: opened, checked, and divided into training data and held-out data.

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
  std::string name;   // in the form of OpenTokens
  double weight = 1;  // as in Blend
};

struct DataConfig {
  std::string root;             // folder that contains all names
  std::vector<DataPart> parts;  // at least one
  double held_out = 0;          // share of each part, at its end: 0 to 0.5
  int32_t sequence_length = 0;
  uint64_t seed = 0;
  int32_t vocab_size = 0;      // of the model without padding
  bool shuffle = true;         // as SamplerOptions::shuffle, for training data
  bool document_mask = false;  // documents are kept apart, so there must be several
};

// Immutable; its samplers are thread-safe.
class TrainingData {
 public:
  // Opens every part, checks the values of its first tokens, and reads the notes beside the parts:
  // their tokenizers, and whether they have masks, which are then opened. The held-out tokens are
  // that share at the end of a part. They begin at the first document that begins in the first half
  // of the share, or at its first token if there is none (long documents, or a format without
  // documents). Errors: those of OpenTokens and ReadDataNote and OpenMask, InvalidArgument (less
  // than one sample to train on or to hold out, a tokenizer with more tokens than vocab_size,
  // tokenizers that differ, a token outside the vocabulary, no document behind another to mask).
  static absl::StatusOr<TrainingData> Open(const DataConfig& config);

  const Sampler& train() const { return *train_; }
  // In the order of the data, parts in their proportions. Null unless config.held_out is above 0.
  const Sampler* held_out() const { return held_out_.get(); }

  // The hash of the tokenizer of all parts that have a note; empty if none has one.
  const std::string& tokenizer_hash() const { return tokenizer_hash_; }
  // The absolute PREFIX of the first part with a note; empty if none has one.
  const std::string& tokenizer_prefix() const { return tokenizer_prefix_; }

 private:
  TrainingData() = default;
  // Returns the mask of the part; null if all of its tokens are trained on.
  absl::StatusOr<const TokenStream*> ReadNote(const DataPart& part, const TokenStream& tokens,
                                              const DataConfig& config);

  std::vector<std::unique_ptr<TokenStream>> streams_;
  std::unique_ptr<Sampler> train_, held_out_;
  std::string tokenizer_hash_, tokenizer_prefix_;
};

// Returns InvalidArgument, naming both, if both tokenizers are known and differ.
absl::Status CheckSameTokenizer(const TrainingData& a, const TrainingData& b);

}  // namespace stretto
