// SPDX-License-Identifier: Apache-2.0

// Opens the parts one after the other with what is beside them, cuts off what is held out, and
// makes a sampler of each side.

#include "worker/data/training_data.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/data/mask.h"
#include "worker/data/open_tokens.h"
#include "worker/data/tokenizer_info.h"

namespace stretto {
namespace {

// Limit for all parts together, which takes about ten milliseconds. Other tokens are checked when
// they are read.
constexpr int64_t kCheckedTokens = int64_t{16} << 20;

absl::Status OtherTokenizer(const std::string& prefix, const std::string& hash,
                            const std::string& other_prefix, const std::string& other_hash) {
  return absl::InvalidArgumentError(
      absl::StrCat(prefix, ".tokenizer.json: found a tokenizer with hash ", hash, ", expected ",
                   other_hash, " as in ", other_prefix, ".tokenizer.json"));
}

// A mask that masks nothing is a mistake, in the job or in the data's index.
absl::Status CheckSeveralDocuments(const std::vector<SampledTokens>& parts) {
  for (const SampledTokens& part : parts) {
    const int64_t count = part.tokens->token_count();
    if (part.tokens->FindDocument(1, count) < count) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data.document_mask: found one document in ", parts.front().tokens->name(),
      parts.size() > 1 ? " and in each of the other data sets" : "", ", expected several"));
}

// Returns the position of the first held-out token.
absl::StatusOr<int64_t> Cut(const TokenStream& tokens, double share, int32_t sequence_length) {
  const int64_t count = tokens.token_count(), sample = int64_t{sequence_length} + 1;
  const auto held_out = static_cast<int64_t>(static_cast<double>(count) * share);
  if (held_out < sample) {
    return absl::InvalidArgumentError(
        absl::StrCat(tokens.name(), ": found ", held_out, " tokens held out, ", share, " of ",
                     count, ", expected at least sequence_length + 1 = ", sample));
  }
  const int64_t begin = count - held_out;
  const int64_t end = std::min(begin + held_out / 2, count - sample) + 1;
  const int64_t document = tokens.FindDocument(begin, end);
  return document < end ? document : begin;
}

}  // namespace

absl::StatusOr<const TokenStream*> TrainingData::ReadNote(const DataPart& part,
                                                          const TokenStream& tokens,
                                                          const DataConfig& config) {
  ASSIGN_OR_RETURN(const std::string prefix, DataPath(part.name, config.root));
  const absl::StatusOr<DataNote> note = ReadDataNote(prefix);
  if (absl::IsNotFound(note.status())) return nullptr;  // another program made it
  RETURN_IF_ERROR(note.status());
  const TokenizerInfo& info = note->tokenizer;
  if (info.vocab_size > config.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, ".tokenizer.json: found a tokenizer of ", info.vocab_size,
                     " tokens, expected at most model.vocab_size ", config.vocab_size));
  }
  if (tokenizer_prefix_.empty()) {
    tokenizer_prefix_ = prefix;
    tokenizer_hash_ = info.hash;
  }
  if (info.hash != tokenizer_hash_) {
    return OtherTokenizer(prefix, info.hash, tokenizer_prefix_, tokenizer_hash_);
  }
  if (!note->masked) return nullptr;
  ASSIGN_OR_RETURN(streams_.emplace_back(), OpenMask(prefix, tokens));
  return streams_.back().get();
}

absl::StatusOr<TrainingData> TrainingData::Open(const DataConfig& config) {
  STRETTO_CHECK(!config.parts.empty() && config.held_out >= 0 && config.held_out <= 0.5);
  TrainingData data;
  std::vector<SampledTokens> train, held_out;
  for (const DataPart& part : config.parts) {
    ASSIGN_OR_RETURN(std::unique_ptr<TokenStream> stream, OpenTokens(part.name, config.root));
    ASSIGN_OR_RETURN(const TokenStream* const mask, data.ReadNote(part, *stream, config));
    RETURN_IF_ERROR(stream->CheckTokens(
        config.vocab_size, kCheckedTokens / static_cast<int64_t>(config.parts.size())));
    const int64_t end = stream->token_count();
    int64_t cut = end;
    if (config.held_out > 0) {
      ASSIGN_OR_RETURN(cut, Cut(*stream, config.held_out, config.sequence_length));
    }
    train.push_back({stream.get(), 0, cut, part.weight, mask});
    held_out.push_back({stream.get(), cut, end, part.weight, mask});
    data.streams_.push_back(std::move(stream));
  }
  if (config.document_mask) RETURN_IF_ERROR(CheckSeveralDocuments(train));
  SamplerOptions options{.sequence_length = config.sequence_length,
                         .seed = config.seed,
                         .vocab_size = config.vocab_size,
                         .shuffle = config.shuffle};
  ASSIGN_OR_RETURN(Sampler trained_on, Sampler::Create(train, options));
  data.train_ = std::make_unique<Sampler>(std::move(trained_on));
  if (config.held_out == 0) return data;
  options.shuffle = false;
  ASSIGN_OR_RETURN(Sampler kept, Sampler::Create(held_out, options));
  data.held_out_ = std::make_unique<Sampler>(std::move(kept));
  return data;
}

absl::Status CheckSameTokenizer(const TrainingData& a, const TrainingData& b) {
  if (a.tokenizer_hash().empty() || b.tokenizer_hash().empty() ||
      a.tokenizer_hash() == b.tokenizer_hash()) {
    return absl::OkStatus();
  }
  return OtherTokenizer(a.tokenizer_prefix(), a.tokenizer_hash(), b.tokenizer_prefix(),
                        b.tokenizer_hash());
}

}  // namespace stretto
