// SPDX-License-Identifier: Apache-2.0

// The number of a sample decides its part (the blend) and its place there (a permutation of each
// epoch). Its tokens and, where the part has one, its mask are read from there, and so are the
// boundaries of documents.

#include "worker/data/sampler.h"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/random.h"
#include "proto/base/status_macros.h"
#include "worker/data/mapping_faults.h"
#include "worker/data/mask.h"

namespace stretto {
namespace {

constexpr int kRounds = 6;

uint64_t Feistel(uint64_t seed, int64_t epoch, int half_bits, uint64_t value) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits, right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const auto draw = Philox(seed, right, (static_cast<uint64_t>(epoch) << 8) | round);
    const uint64_t mixed = left ^ (((uint64_t{draw[1]} << 32) | draw[0]) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits) | right;
}

// Each part has its own order; the first part has that of a single data set.
uint64_t PartSeed(uint64_t seed, size_t part) {
  if (part == 0) return seed;
  const auto draw = Philox(seed, part, uint64_t{1} << 63);  // real epochs are below 2^63
  return (uint64_t{draw[1]} << 32) | draw[0];
}

}  // namespace

int64_t Permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index) {
  STRETTO_CHECK(0 <= index && index < count);
  const int bits = std::bit_width(static_cast<uint64_t>(count - 1));
  const int half_bits = std::max(1, (bits + 1) / 2);
  auto value = static_cast<uint64_t>(index);
  do {
    value = Feistel(seed, epoch, half_bits, value);
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

int64_t SampleIndex(uint64_t seed, int64_t samples_per_epoch, int64_t consumed) {
  STRETTO_CHECK(samples_per_epoch > 0 && consumed >= 0);
  return Permute(seed, consumed / samples_per_epoch, samples_per_epoch,
                 consumed % samples_per_epoch);
}

absl::StatusOr<Sampler> Sampler::Create(const std::vector<SampledTokens>& parts,
                                        const SamplerOptions& options) {
  STRETTO_CHECK(options.sequence_length > 0 && options.vocab_size > 0);
  std::vector<Part> sampled;
  std::vector<double> weights;
  for (const SampledTokens& part : parts) {
    const int64_t samples = (part.end - part.begin - 1) / options.sequence_length;
    if (samples < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(part.tokens->name(), ": found ", part.end - part.begin,
                       " tokens, expected at least sequence_length + 1 = ",
                       int64_t{options.sequence_length} + 1));
    }
    sampled.push_back(
        {part.tokens, part.mask, part.begin, samples, PartSeed(options.seed, sampled.size())});
    weights.push_back(part.weight);
  }
  return Sampler(std::move(sampled), Blend(weights), options);
}

absl::StatusOr<Sampler> Sampler::Create(const TokenStream& tokens, const SamplerOptions& options) {
  return Create({{.tokens = &tokens, .end = tokens.token_count()}}, options);
}

int64_t Sampler::samples_per_epoch() const {
  int64_t samples = 0;
  for (const Part& part : parts_) samples += part.samples;
  return samples;
}

std::pair<const Sampler::Part*, int64_t> Sampler::Find(int64_t consumed) const {
  const auto [number, index] = blend_.At(consumed);
  const Part& part = parts_[number];
  const int64_t sample =
      options_.shuffle ? SampleIndex(part.seed, part.samples, index) : index % part.samples;
  return {&part, part.begin + sample * options_.sequence_length};
}

std::pair<const TokenStream*, int64_t> Sampler::Locate(int64_t consumed) const {
  const auto [part, begin] = Find(consumed);
  return {part->tokens, begin};
}

absl::Status Sampler::ReadBatch(int64_t consumed, int64_t count, int32_t* tokens,
                                int32_t* targets) const {
  if (tokens == nullptr && targets == nullptr) return absl::OkStatus();
  const int64_t length = options_.sequence_length;
  std::vector<int32_t> sequence(length + 1);
  for (int64_t i = 0; i < count; ++i) {
    const auto [part, begin] = Find(consumed + i);
    RETURN_IF_ERROR(part->tokens->Read(begin, options_.vocab_size, std::span<int32_t>(sequence)));
    if (tokens != nullptr) std::copy_n(sequence.begin(), length, tokens + i * length);
    if (targets == nullptr) continue;
    int32_t* const first = targets + i * length;
    std::copy_n(sequence.begin() + 1, length, first);
    if (part->mask == nullptr) continue;
    const std::span<int32_t> trained = std::span<int32_t>(sequence).first(length);
    RETURN_IF_ERROR(part->mask->Read(begin + 1, kMaskValues, trained));
    for (int64_t at = 0; at < length; ++at) {
      if (trained[at] == 0) first[at] = kMaskedTarget;
    }
  }
  return MappingFault();
}

void Sampler::FindDocuments(int64_t consumed, int64_t count, int32_t* documents) const {
  if (documents == nullptr) return;
  const int64_t length = options_.sequence_length;
  for (int64_t i = 0; i < count; ++i, documents += length) {
    const auto [part, begin] = Find(consumed + i);
    // The first token begins a document as far as its sequence is concerned.
    for (int64_t first = 0, next = 0; first < length; first = next) {
      next = part->tokens->FindDocument(begin + first + 1, begin + length) - begin;
      std::fill(documents + first, documents + next, static_cast<int32_t>(first));
    }
  }
}

absl::StatusOr<int64_t> Sampler::CountTargets(int64_t consumed, int64_t count) const {
  const int64_t length = options_.sequence_length;
  const bool masked = std::any_of(parts_.begin(), parts_.end(),
                                  [](const Part& part) { return part.mask != nullptr; });
  if (!masked) return count * length;
  int64_t targets = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto [part, begin] = Find(consumed + i);
    int64_t of_sample = length;
    if (part->mask != nullptr) {
      ASSIGN_OR_RETURN(of_sample, CountTrained(*part->mask, begin + 1, begin + 1 + length));
    }
    targets += of_sample;
  }
  return targets;
}

}  // namespace stretto
