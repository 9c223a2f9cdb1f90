// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/explain/comment.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace stretto::cli {
namespace {

constexpr char kIndent[] = "  ";
constexpr char kDefault[] = "Default ";

// Moves sentences that have a field of their own out of a paragraph.
std::string TakeSentences(const std::string& paragraph, Comment* comment) {
  std::vector<std::string> rest;
  const std::vector<std::string> sentences = absl::StrSplit(paragraph, ". ");
  for (size_t i = 0; i < sentences.size(); ++i) {
    const bool last = i + 1 == sentences.size();
    absl::string_view sentence = sentences[i];
    if (last) absl::ConsumeSuffix(&sentence, ".");
    if (sentence == "Required") {
      comment->required = true;
    } else if (absl::ConsumePrefix(&sentence, kDefault)) {
      comment->default_value = std::string(sentence);
    } else {
      const bool ended = !last || absl::EndsWith(sentences[i], ".");
      rest.push_back(absl::StrCat(sentence, ended ? "." : ""));
    }
  }
  return absl::StrJoin(rest, " ");
}

class Parser {
 public:
  Comment Run(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      absl::ConsumePrefix(&line, " ");
      Add(absl::StripTrailingAsciiWhitespace(line));
    }
    Close();
    return std::move(comment_);
  }

 private:
  void Add(absl::string_view line) {
    const bool verbatim = absl::StartsWith(line, kIndent);
    if (line.empty() || verbatim != open_.verbatim) Close();
    if (line.empty()) return;
    open_.verbatim = verbatim;
    if (verbatim) {
      absl::ConsumePrefix(&line, kIndent);
      absl::StrAppend(&open_.text, line, "\n");
    } else {
      absl::StrAppend(&open_.text, open_.text.empty() ? "" : " ", line);
    }
  }

  void Close() {
    Comment::Block block = std::exchange(open_, {});
    if (block.text.empty()) return;
    if (block.text == "Example:") {
      example_ = true;
    } else if (block.verbatim && std::exchange(example_, false)) {
      comment_.examples.push_back(std::move(block.text));
    } else {
      if (!block.verbatim) block.text = TakeSentences(block.text, &comment_);
      if (!block.text.empty()) comment_.blocks.push_back(std::move(block));
    }
  }

  Comment comment_;
  Comment::Block open_;
  bool example_ = false;
};

}  // namespace

std::string Comment::Line() const {
  std::vector<std::string> parts;
  for (const Block& block : blocks) {
    if (!block.verbatim) parts.push_back(block.text);
  }
  return absl::StrJoin(parts, " ");
}

Comment ParseComment(absl::string_view text) { return Parser().Run(text); }

}  // namespace stretto::cli
