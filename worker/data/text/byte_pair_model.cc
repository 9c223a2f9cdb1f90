// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/byte_pair_model.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stretto {
namespace {

uint64_t Key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// A symbol of the word, in a doubly linked list.
struct Symbol {
  int32_t token;
  int32_t previous, next;  // -1: none
};

// A possible merge when it was found. The first in rank, then the leftmost, comes first.
struct Candidate {
  int32_t rank, left;
  int32_t left_token, right_token;  // the pieces' tokens then, to detect stale candidates
  int32_t token;
};

bool Later(const Candidate& a, const Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

}  // namespace

absl::StatusOr<BytePairModel> BytePairModel::Create(Vocabulary vocabulary) {
  BytePairModel model;
  for (int byte = 0; byte < 256; ++byte) {
    const auto token = vocabulary.tokens.find(std::string(1, static_cast<char>(byte)));
    if (token == vocabulary.tokens.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "vocab: found no token for byte 0x%02x, expected one of each byte", byte));
    }
    model.bytes_[byte] = token->second;
  }
  model.merges_.reserve(vocabulary.merges.size());
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto& [left, right] = vocabulary.merges[i];
    int32_t tokens[3];
    const std::string pieces[] = {left, right, left + right};
    for (int k = 0; k < 3; ++k) {
      const auto token = vocabulary.tokens.find(pieces[k]);
      if (token == vocabulary.tokens.end()) {
        return absl::InvalidArgumentError(absl::StrCat("merges[", i, "]: found piece \"",
                                                       absl::CHexEscape(pieces[k]),
                                                       "\", expected one of vocab"));
      }
      tokens[k] = token->second;
    }
    model.merges_.insert_or_assign(Key(tokens[0], tokens[1]),
                                   Merge{static_cast<int32_t>(i), tokens[2]});
  }
  if (vocabulary.whole_words_first) model.whole_words_ = std::move(vocabulary.tokens);
  return model;
}

const BytePairModel::Merge* BytePairModel::Find(int32_t left, int32_t right) const {
  const auto merge = merges_.find(Key(left, right));
  return merge == merges_.end() ? nullptr : &merge->second;
}

void BytePairModel::Append(absl::string_view word, std::vector<int32_t>* tokens) const {
  if (const auto whole = whole_words_.find(word); whole != whole_words_.end()) {
    tokens->push_back(whole->second);
    return;
  }
  static thread_local std::vector<Symbol> pieces;
  static thread_local std::vector<Candidate> heap;
  const auto size = static_cast<int32_t>(word.size());
  pieces.clear();
  heap.clear();
  for (int32_t i = 0; i < size; ++i) {
    pieces.push_back(
        {bytes_[static_cast<unsigned char>(word[i])], i - 1, i + 1 < size ? i + 1 : -1});
  }
  const auto offer = [this](int32_t left) {
    const int32_t right = left < 0 ? -1 : pieces[left].next;
    if (right < 0) return;
    const Merge* merge = Find(pieces[left].token, pieces[right].token);
    if (merge == nullptr) return;
    heap.push_back({merge->rank, left, pieces[left].token, pieces[right].token, merge->token});
    std::push_heap(heap.begin(), heap.end(), Later);
  };
  for (int32_t i = 0; i < size; ++i) offer(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), Later);
    const Candidate best = heap.back();
    heap.pop_back();
    Symbol& left = pieces[best.left];
    if (left.token != best.left_token || left.next < 0) continue;
    Symbol& right = pieces[left.next];
    if (right.token != best.right_token) continue;
    const int32_t beyond = right.next;
    right.token = -1;  // removed, so candidates that name it are stale
    left.token = best.token;
    left.next = beyond;
    if (beyond >= 0) pieces[beyond].previous = best.left;
    offer(left.previous);
    offer(best.left);
  }
  for (int32_t i = size == 0 ? -1 : 0; i >= 0; i = pieces[i].next)
    tokens->push_back(pieces[i].token);
}

}  // namespace stretto
