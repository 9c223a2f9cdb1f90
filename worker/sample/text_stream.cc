// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/text_stream.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"
#include "worker/sample/utf8.h"

namespace stretto {
namespace {

constexpr size_t kContext = 4;  // tokens; a character has at most this many bytes

// Returns the end of `tokens` that can affect later text: kContext of them, or more if those have
// no text.
std::vector<int32_t> Context(const Tokenizer& tokenizer, absl::Span<const int32_t> tokens) {
  size_t count = kContext;
  for (; count < tokens.size(); count *= 2) {
    const absl::StatusOr<std::string> text = tokenizer.Decode(tokens.last(count));
    if (!text.ok() || !text->empty()) break;
  }
  tokens.remove_prefix(tokens.size() - std::min(tokens.size(), count));
  return {tokens.begin(), tokens.end()};
}

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, absl::Span<const int32_t> before)
    : tokenizer_(tokenizer), shown_(Context(tokenizer, before)) {}

absl::StatusOr<std::string> TextStream::Add(int32_t token) {
  pending_.push_back(token);
  RETURN_IF_ERROR(TakePending(false));
  return TakeUtf8(&bytes_, false);
}

absl::StatusOr<std::string> TextStream::Finish() {
  RETURN_IF_ERROR(TakePending(true));
  return TakeUtf8(&bytes_, true);
}

// Moves the text of pending_ that later tokens cannot change, or all of it, to bytes_.
absl::Status TextStream::TakePending(bool all) {
  if (pending_.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string added, TextAfterShown(pending_));
  size_t taken = pending_.size();
  // A tokenizer that combines bytes shows an incomplete character as U+FFFD.
  if (!all && absl::EndsWith(added, kReplacement)) {
    if (taken < kContext) return absl::OkStatus();
    taken = 1;
    ASSIGN_OR_RETURN(added, TextAfterShown({pending_[0]}));
  }
  bytes_ += added;
  const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(taken);
  shown_.insert(shown_.end(), pending_.begin(), end);
  shown_ = Context(tokenizer_, shown_);
  pending_.erase(pending_.begin(), end);
  return absl::OkStatus();
}

absl::StatusOr<std::string> TextStream::TextAfterShown(absl::Span<const int32_t> tokens) const {
  std::vector<int32_t> all = shown_;
  all.insert(all.end(), tokens.begin(), tokens.end());
  ASSIGN_OR_RETURN(const std::string before, tokenizer_.Decode(shown_));
  ASSIGN_OR_RETURN(const std::string text, tokenizer_.Decode(all));
  absl::string_view added = text;
  if (!absl::ConsumePrefix(&added, before)) return tokenizer_.Decode(tokens);
  return std::string(added);
}

}  // namespace stretto
