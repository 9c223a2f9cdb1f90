// SPDX-License-Identifier: Apache-2.0

// Encodes a text in three steps: split at added tokens (the longest match at a place), split into
// words by the tokenizer's expression, and merge the bytes of each word (BytePairModel). Text
// between two words is a word of its own. Decoding joins the pieces of the tokens. Text may be cut
// for parallel encoding only before a line break, and only with expressions whose words are known
// to end there.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/text/beside.h"
#include "worker/data/text/byte_pair_model.h"
#include "worker/data/text/end_of_document.h"
#include "worker/data/text/pattern.h"
#include "worker/data/text/sha256.h"
#include "worker/data/text/tokenizer.h"
#include "worker/data/text/tokenizer_json.h"

namespace stretto {
namespace {

class BytePairTokenizer final : public Tokenizer {
 public:
  BytePairTokenizer(TokenizerInfo info, std::string path, BytePairModel model, Pattern words,
                    std::optional<Pattern> added_pattern,
                    absl::flat_hash_map<std::string, int32_t> added,
                    std::vector<std::string> pieces, bool add_prefix_space, bool cut_at_lines)
      : info_(std::move(info)),
        path_(std::move(path)),
        model_(std::move(model)),
        words_(std::move(words)),
        added_pattern_(std::move(added_pattern)),
        added_(std::move(added)),
        pieces_(std::move(pieces)),
        add_prefix_space_(add_prefix_space),
        cut_at_lines_(cut_at_lines) {}

  const TokenizerInfo& info() const override { return info_; }

  std::vector<TokenizerFile> files() const override {
    return WithFilesBeside(path_, "tokenizer.json");
  }

  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override {
    RETURN_IF_ERROR(CheckUtf8(text));
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 3);
    while (!text.empty()) {
      Pattern::Range added{text.size(), text.size()};
      if (added_pattern_.has_value()) {
        ASSIGN_OR_RETURN(added, added_pattern_->Find(text, 0));
      }
      RETURN_IF_ERROR(AppendText(text.substr(0, added.begin), &tokens));
      if (added.begin < added.end) {
        tokens.push_back(added_.at(text.substr(added.begin, added.end - added.begin)));
      }
      text.remove_prefix(added.end);
    }
    return tokens;
  }

  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= info_.vocab_size) {
        return absl::InvalidArgumentError(absl::StrCat("found token ", token,
                                                       ", expected one in [0, ", info_.vocab_size,
                                                       ") of this tokenizer"));
      }
      if (token != info_.end_of_document) text += pieces_[token];
    }
    return text;
  }

  bool CanCut(char before, char after) const override {
    return cut_at_lines_ && absl::ascii_isalnum(before) && after == '\n';
  }

 private:
  absl::Status AppendText(absl::string_view text, std::vector<int32_t>* tokens) const {
    if (text.empty()) return absl::OkStatus();
    std::string prefixed;
    if (add_prefix_space_ && text[0] != ' ') {
      prefixed = absl::StrCat(" ", text);
      text = prefixed;
    }
    for (size_t start = 0, from = 0; start < text.size();) {
      ASSIGN_OR_RETURN(const Pattern::Range word, words_.Find(text, from));
      if (word.begin == word.end && word.begin < text.size()) {
        // As in `tokenizers`, an empty match ends the word before it. The search continues after
        // the next character.
        if (word.begin > start) model_.Append(text.substr(start, word.begin - start), tokens);
        start = word.begin;
        from = word.begin + 1;
        while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0) == 0x80) {
          ++from;
        }
        continue;
      }
      if (word.begin > start) model_.Append(text.substr(start, word.begin - start), tokens);
      if (word.end > word.begin) {
        model_.Append(text.substr(word.begin, word.end - word.begin), tokens);
      }
      start = from = word.end;
    }
    return absl::OkStatus();
  }

  const TokenizerInfo info_;
  const std::string path_;
  const BytePairModel model_;
  const Pattern words_;
  const std::optional<Pattern> added_pattern_;
  const absl::flat_hash_map<std::string, int32_t> added_;
  const std::vector<std::string> pieces_;  // by token; empty for unused tokens
  const bool add_prefix_space_;
  const bool cut_at_lines_;
};

// Sorted by length, longest first, because the first alternative that matches wins.
absl::StatusOr<std::optional<Pattern>> AddedPattern(std::vector<AddedToken> added) {
  if (added.empty()) return std::nullopt;
  std::stable_sort(added.begin(), added.end(), [](const AddedToken& a, const AddedToken& b) {
    return a.text.size() > b.text.size();
  });
  ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(absl::StrJoin(
                                        added, "|", [](std::string* out, const AddedToken& token) {
                                          absl::StrAppend(out, Quoted(token.text));
                                        })));
  return std::optional<Pattern>(std::move(pattern));
}

// Whether a letter or digit before a line break always ends a word. An arbitrary expression cannot
// be analysed, so this is true only for known ones.
bool CutAtLines(const TokenizerJson& json) {
  return !json.add_prefix_space &&
         (json.word_pattern == kGpt2Words || json.word_pattern == kLlama3Words) &&
         std::none_of(json.added.begin(), json.added.end(),
                      [](const AddedToken& token) { return absl::StrContains(token.text, '\n'); });
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Make(TokenizerJson json, const std::string& path,
                                                const std::string& hash,
                                                const std::string& end_of_document) {
  absl::flat_hash_map<std::string, int32_t> added;
  for (const AddedToken& token : json.added) added.emplace(token.text, token.token);
  const auto end = added.find(end_of_document);
  if (end == added.end()) {
    const std::string names = absl::StrJoin(
        json.added, ", ",
        [](std::string* out, const AddedToken& token) { absl::StrAppend(out, token.text); });
    return absl::InvalidArgumentError(absl::StrCat(
        "end of document: found ",
        end_of_document.empty()
            ? "no eos_token in tokenizer_config.json or special_tokens_map.json and "
              "no eos_token_id in config.json or generation_config.json"
            : absl::StrCat("\"", end_of_document, "\""),
        ", expected --end-of-document with one of the added tokens: ", names.substr(0, 400)));
  }
  const TokenizerInfo info{"byte_pair", json.vocab_size, end->second, hash};
  ASSIGN_OR_RETURN(Pattern words, Pattern::Compile(json.word_pattern));
  ASSIGN_OR_RETURN(std::optional<Pattern> added_pattern, AddedPattern(json.added));
  std::vector<std::string> pieces(json.vocab_size);
  for (const auto& [piece, token] : json.vocabulary.tokens) pieces[token] = piece;
  for (const AddedToken& token : json.added) pieces[token.token] = token.text;
  const bool cut_at_lines = CutAtLines(json);
  ASSIGN_OR_RETURN(BytePairModel model, BytePairModel::Create(std::move(json.vocabulary)));
  return std::make_unique<BytePairTokenizer>(
      info, path, std::move(model), std::move(words), std::move(added_pattern), std::move(added),
      std::move(pieces), json.add_prefix_space, cut_at_lines);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadBytePairTokenizer(
    const std::string& path, const std::string& end_of_document) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto within = [&path](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  };
  absl::StatusOr<TokenizerJson> json = ParseTokenizerJson(text);
  if (!json.ok()) return within(json.status());
  std::string end = end_of_document;
  if (end.empty()) {
    ASSIGN_OR_RETURN(end, EndOfDocumentBeside(path, json->added));
  }
  auto tokenizer = Make(*std::move(json), path, Sha256(text), end);
  if (!tokenizer.ok()) return within(tokenizer.status());
  return tokenizer;
}

}  // namespace stretto
