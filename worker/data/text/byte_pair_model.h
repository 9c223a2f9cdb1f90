// SPDX-License-Identifier: Apache-2.0
#pragma once
// Byte-pair encoding over bytes, as introduced by GPT-2: a word is its bytes, and neighbours are
// merged in the order in which training found the merges of the vocabulary (Sennrich et al. 2016;
// Radford et al. 2019).

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

// Immutable and thread-safe.
class BytePairModel {
 public:
  struct Vocabulary {
    absl::flat_hash_map<std::string, int32_t> tokens;         // a piece's bytes to its token
    std::vector<std::pair<std::string, std::string>> merges;  // most urgent first
    bool whole_words_first = false;  // a word that is a piece is its token, regardless of merges
  };
  // Errors: InvalidArgument (a byte without a token, a merge whose pieces or result have none).
  static absl::StatusOr<BytePairModel> Create(Vocabulary vocabulary);

  // Appends the tokens of `word` in time n log n in its length.
  void Append(absl::string_view word, std::vector<int32_t>* tokens) const;

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t token = 0;
  };
  BytePairModel() = default;
  const Merge* Find(int32_t left, int32_t right) const;

  int32_t bytes_[256] = {};
  absl::flat_hash_map<uint64_t, Merge> merges_;
  absl::flat_hash_map<std::string, int32_t> whole_words_;  // empty unless whole_words_first
};

}  // namespace stretto
