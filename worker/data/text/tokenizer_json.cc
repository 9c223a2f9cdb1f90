// SPDX-License-Identifier: Apache-2.0

// Reads vocabulary, merges, added tokens and the pre-tokenizer, and refuses every feature that
// would change the tokens and is not implemented, so that a tokenizer works exactly or not at all.
// Pieces are decoded from the byte-level alphabet to bytes. Errors name the key, what was found and
// what was expected.

#include "worker/data/text/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/data/text/byte_level.h"

namespace stretto {
namespace {

using nlohmann::json;

absl::Status Refuse(absl::string_view key, const json& found, absl::string_view expected) {
  std::string text = found.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return absl::InvalidArgumentError(
      absl::StrCat("key ", key, ": found ", text, ", expected ", expected));
}

// Returns a member of `object`; null if absent.
const json& Member(const json& object, const char* key) {
  static const json null;
  const auto member = object.find(key);
  return member == object.end() ? null : *member;
}

// Far above any vocabulary. Tables are indexed by token, so a tiny file must not claim a huge one.
constexpr uint64_t kMostTokens = uint64_t{1} << 24;

bool IsToken(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() < kMostTokens;
}

// An absent value, null, false and "" all mean that a feature is off.
absl::Status CheckOff(const json& object, absl::string_view path, const char* key) {
  const json& value = Member(object, key);
  if (value.is_null() || value == false || value == "") return absl::OkStatus();
  return Refuse(absl::StrCat(path, ".", key), value, "none: it is not implemented");
}

absl::Status ParseVocabulary(const json& vocab, TokenizerJson* result) {
  if (!vocab.is_object()) return Refuse("model.vocab", vocab, "an object of pieces and tokens");
  for (const auto& [piece, token] : vocab.items()) {
    const std::string path = absl::StrCat("model.vocab.", piece);
    if (!IsToken(token)) return Refuse(path, token, "a token in [0, 2^24)");
    result->vocab_size = std::max(result->vocab_size, token.get<int32_t>() + 1);
    absl::StatusOr<std::string> bytes = BytesOfPiece(piece);
    // Special tokens are in vocab as plain text. They are the result of no merge, so they need no
    // bytes.
    if (bytes.ok()) result->vocabulary.tokens.emplace(*std::move(bytes), token.get<int32_t>());
  }
  return absl::OkStatus();
}

// A merge is "a b", or ["a", "b"] since tokenizers 0.20.
absl::Status ParseMerges(const json& merges, TokenizerJson* result) {
  if (!merges.is_array()) return Refuse("model.merges", merges, "a list of merges");
  for (size_t i = 0; i < merges.size(); ++i) {
    const json& merge = merges[i];
    const std::string path = absl::StrCat("model.merges[", i, "]");
    std::string left, right;
    if (merge.is_string()) {
      const std::string& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string::npos) return Refuse(path, merge, "two pieces");
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      left = merge[0];
      right = merge[1];
    } else {
      return Refuse(path, merge, "two pieces");
    }
    ASSIGN_OR_RETURN(left, BytesOfPiece(left));
    ASSIGN_OR_RETURN(right, BytesOfPiece(right));
    result->vocabulary.merges.emplace_back(std::move(left), std::move(right));
  }
  return absl::OkStatus();
}

absl::Status ParseModel(const json& model, TokenizerJson* result) {
  if (!model.is_object() || Member(model, "type") != "BPE") {
    return Refuse("model.type", model.is_object() ? Member(model, "type") : model, "\"BPE\"");
  }
  if (Member(model, "byte_fallback") == true) {
    return Refuse("model.byte_fallback", true,
                  "false: of such a tokenizer take the SentencePiece model (tokenizer.model)");
  }
  // unk_token is not checked because it is never used: every byte has a token.
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    RETURN_IF_ERROR(CheckOff(model, "model", key));
  }
  result->vocabulary.whole_words_first = Member(model, "ignore_merges") == true;
  RETURN_IF_ERROR(ParseVocabulary(Member(model, "vocab"), result));
  return ParseMerges(Member(model, "merges"), result);
}

absl::Status ParseAddedTokens(const json& added, TokenizerJson* result) {
  if (added.is_null()) return absl::OkStatus();
  if (!added.is_array()) return Refuse("added_tokens", added, "a list");
  for (size_t i = 0; i < added.size(); ++i) {
    const std::string path = absl::StrCat("added_tokens[", i, "]");
    const json& content = Member(added[i], "content");
    const json& id = Member(added[i], "id");
    if (!content.is_string() || content == "") {
      return Refuse(path + ".content", content, "text that is not empty");
    }
    if (!IsToken(id)) return Refuse(path + ".id", id, "a token in [0, 2^24)");
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      RETURN_IF_ERROR(CheckOff(added[i], path, key));
    }
    result->added.push_back({content.get<std::string>(), id.get<int32_t>()});
    result->vocab_size = std::max(result->vocab_size, id.get<int32_t>() + 1);
  }
  return absl::OkStatus();
}

absl::Status ParseByteLevel(const json& byte_level, const std::string& path,
                            TokenizerJson* result) {
  if (Member(byte_level, "type") != "ByteLevel") {
    return Refuse(path + ".type", Member(byte_level, "type"), "\"ByteLevel\"");
  }
  result->add_prefix_space = Member(byte_level, "add_prefix_space") == true;
  if (result->add_prefix_space && !result->word_pattern.empty()) {
    return Refuse(path + ".add_prefix_space", true, "false behind a Split");
  }
  const json& use_regex = Member(byte_level, "use_regex");  // true if absent
  if (use_regex != false) {
    if (!result->word_pattern.empty()) {
      return Refuse(path + ".use_regex", true, "false behind a Split");
    }
    result->word_pattern = kGpt2Words;
  } else if (result->word_pattern.empty()) {
    return Refuse(path + ".use_regex", false, "true, or a Split in front");
  }
  return absl::OkStatus();
}

absl::Status ParsePreTokenizer(const json& pre, TokenizerJson* result) {
  if (!pre.is_object()) return Refuse("pre_tokenizer", pre, "ByteLevel, or Split and ByteLevel");
  if (Member(pre, "type") != "Sequence") return ParseByteLevel(pre, "pre_tokenizer", result);
  const json& parts = Member(pre, "pretokenizers");
  const std::string path = "pre_tokenizer.pretokenizers";
  if (!parts.is_array() || parts.size() != 2) return Refuse(path, parts, "Split and ByteLevel");
  const json& split = parts[0];
  if (Member(split, "type") != "Split") {
    return Refuse(path + "[0].type", Member(split, "type"), "\"Split\"");
  }
  if (Member(split, "behavior") != "Isolated" || Member(split, "invert") == true) {
    return Refuse(path + "[0]", split, "behavior Isolated and invert false");
  }
  const json& pattern = Member(split, "pattern");
  if (!pattern.is_object() || !Member(pattern, "Regex").is_string() || pattern["Regex"] == "") {
    return Refuse(path + "[0].pattern", pattern, "{\"Regex\": EXPRESSION}");
  }
  result->word_pattern = pattern["Regex"];
  for (const char* other : {"&&", "\\h", "\\H"}) {
    if (absl::StrContains(result->word_pattern, other)) {
      return Refuse(path + "[0].pattern.Regex", pattern["Regex"],
                    absl::StrCat("no ", other, ": it means something else in PCRE2"));
    }
  }
  return ParseByteLevel(parts[1], path + "[1]", result);
}

}  // namespace

absl::StatusOr<TokenizerJson> ParseTokenizerJson(absl::string_view text) {
  const json document = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::InvalidArgumentError("found no JSON object, expected a tokenizer.json");
  }
  TokenizerJson result;
  const json& normalizer = Member(document, "normalizer");
  const bool none =
      normalizer.is_null() || (normalizer.is_object() && Member(normalizer, "type") == "Sequence" &&
                               Member(normalizer, "normalizers").empty());
  if (!none) return Refuse("normalizer", normalizer, "none: it is not implemented");
  RETURN_IF_ERROR(ParseModel(Member(document, "model"), &result));
  RETURN_IF_ERROR(ParseAddedTokens(Member(document, "added_tokens"), &result));
  RETURN_IF_ERROR(ParsePreTokenizer(Member(document, "pre_tokenizer"), &result));
  return result;
}

}  // namespace stretto
