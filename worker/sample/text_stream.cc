#include "worker/sample/text_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"
#include "worker/sample/utf8.h"

namespace stretto {
namespace {

constexpr size_t kContext = 4;  // tokens; as many as a character has bytes at most

}  // namespace

TextStream::TextStream(const Tokenizer& tokenizer, absl::Span<const int32_t> before)
    : tokenizer_(tokenizer) {
  before.remove_prefix(before.size() - std::min(before.size(), kContext));
  shown_.assign(before.begin(), before.end());
}

absl::StatusOr<std::string> TextStream::Add(int32_t token) {
  pending_.push_back(token);
  RETURN_IF_ERROR(TakePending(false));
  return TakeUtf8(&bytes_, false);
}

absl::StatusOr<std::string> TextStream::Finish() {
  RETURN_IF_ERROR(TakePending(true));
  return TakeUtf8(&bytes_, true);
}

// Appends the text of pending_ to bytes_.
absl::Status TextStream::TakePending(bool all) {
  if (pending_.empty()) return absl::OkStatus();
  std::vector<int32_t> tokens = shown_;
  tokens.insert(tokens.end(), pending_.begin(), pending_.end());
  ASSIGN_OR_RETURN(const std::string before, tokenizer_.Decode(shown_));
  ASSIGN_OR_RETURN(std::string text, tokenizer_.Decode(tokens));
  absl::string_view added = text;
  if (!absl::ConsumePrefix(&added, before)) {
    ASSIGN_OR_RETURN(text, tokenizer_.Decode(pending_));
    added = text;
  }
  // A tokenizer that puts bytes together shows a character as U+FFFD until its last byte is there.
  if (!all && absl::EndsWith(added, kReplacement) && pending_.size() < kContext) {
    return absl::OkStatus();
  }
  bytes_.append(added.data(), added.size());
  shown_ = std::exchange(pending_, {});
  return absl::OkStatus();
}

}  // namespace stretto
