// SPDX-License-Identifier: Apache-2.0

// The byte tokenizer, the SentencePiece tokenizer on top of its library, and MakeTokenizer, which
// chooses by name. Byte-level BPE is in byte_pair_tokenizer.cc.

#include "worker/data/text/tokenizer.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/text/beside.h"
#include "worker/data/text/pattern.h"
#include "worker/data/text/sentencepiece_model.h"
#include "worker/data/text/sha256.h"

namespace stretto {
namespace {

absl::Status NoSuchToken(int32_t token, const TokenizerInfo& info) {
  return absl::InvalidArgumentError(absl::StrCat("found token ", token, ", expected one in [0, ",
                                                 info.vocab_size, ") of this tokenizer"));
}

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() : info_{"bytes", 257, 256, Sha256("bytes")} {}
  const TokenizerInfo& info() const override { return info_; }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return std::vector<int32_t>(bytes, bytes + text.size());
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= info_.vocab_size) return NoSuchToken(token, info_);
      if (token != info_.end_of_document) text += static_cast<char>(token);
    }
    return text;
  }
  bool CanCut(char, char) const override { return true; }

 private:
  TokenizerInfo info_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(TokenizerInfo info, std::string path,
                         std::unique_ptr<SentencePieceModel> model)
      : info_(std::move(info)), path_(std::move(path)), model_(std::move(model)) {}
  const TokenizerInfo& info() const override { return info_; }
  std::vector<TokenizerFile> files() const override {
    return WithFilesBeside(path_, "tokenizer.model");
  }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override {
    RETURN_IF_ERROR(CheckUtf8(text));  // the library would replace bad bytes by <unk>
    std::vector<int32_t> tokens;
    const std::string error = model_->Encode(std::string_view(text.data(), text.size()), &tokens);
    if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat("sentencepiece: ", error));
    return tokens;
  }
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> tokens) const override {
    std::vector<int32_t> shown;
    for (const int32_t token : tokens) {
      if (token < 0 || token >= info_.vocab_size) return NoSuchToken(token, info_);
      if (token != info_.end_of_document) shown.push_back(token);
    }
    std::string text;
    const std::string error = model_->Decode(shown, &text);
    if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat("sentencepiece: ", error));
    return text;
  }
  // Models add a space before a text and may drop others.
  bool CanCut(char, char) const override { return false; }

 private:
  TokenizerInfo info_;
  std::string path_;
  std::unique_ptr<SentencePieceModel> model_;
};

}  // namespace

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSentencePieceTokenizer(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string serialized, ReadFile(path));
  std::string error;
  std::unique_ptr<SentencePieceModel> model = SentencePieceModel::Parse(serialized, &error);
  if (model == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found no SentencePiece model: ", error));
  }
  if (model->end_of_document() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": found a model without </s>, expected one to end documents with"));
  }
  TokenizerInfo info{"sentencepiece", model->vocab_size(), model->end_of_document(),
                     Sha256(serialized)};
  return std::make_unique<SentencePieceTokenizer>(std::move(info), path, std::move(model));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(absl::string_view name,
                                                         const std::string& end_of_document) {
  if (absl::ConsumePrefix(&name, "hf:") && !name.empty()) {
    std::string path(name);
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) path += "/tokenizer.json";
    return LoadBytePairTokenizer(path, end_of_document);
  }
  if (!end_of_document.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--end-of-document: found it with --tokenizer ",
                                                   name, ", expected it with hf:... alone"));
  }
  if (name == "bytes") return MakeByteTokenizer();
  if (absl::ConsumePrefix(&name, "sentencepiece:") && !name.empty()) {
    return LoadSentencePieceTokenizer(std::string(name));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--tokenizer: found \"", name,
                   "\", expected \"bytes\", \"sentencepiece:MODEL_FILE\", \"hf:FOLDER\" or "
                   "\"hf:TOKENIZER_JSON\""));
}

}  // namespace stretto
