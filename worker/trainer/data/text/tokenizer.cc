#include "worker/trainer/data/text/tokenizer.h"

#include <openssl/sha.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/data/text/sentencepiece_model.h"

namespace stretto {
namespace {

std::string Sha256(const std::string& content) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return absl::BytesToHexString(digest);
}

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() : info_{"bytes", 257, 256, Sha256("bytes")} {}
  const TokenizerInfo& info() const override { return info_; }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    return std::vector<int32_t>(bytes, bytes + text.size());
  }

 private:
  TokenizerInfo info_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(TokenizerInfo info, std::unique_ptr<SentencePieceModel> model)
      : info_(std::move(info)), model_(std::move(model)) {}
  const TokenizerInfo& info() const override { return info_; }
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const override {
    std::vector<int32_t> tokens;
    const std::string error = model_->Encode(std::string_view(text.data(), text.size()), &tokens);
    if (!error.empty()) return absl::InvalidArgumentError(absl::StrCat("sentencepiece: ", error));
    return tokens;
  }

 private:
  TokenizerInfo info_;
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
  return std::make_unique<SentencePieceTokenizer>(std::move(info), std::move(model));
}

}  // namespace stretto
