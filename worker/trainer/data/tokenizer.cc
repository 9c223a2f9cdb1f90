#include "worker/trainer/data/tokenizer.h"

#include <openssl/sha.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/data/sentencepiece_model.h"

namespace stretto {
namespace {

using nlohmann::json;

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

std::string InfoPath(const std::string& prefix) { return prefix + ".tokenizer.json"; }

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

absl::Status WriteTokenizerInfo(const std::string& prefix, const TokenizerInfo& info) {
  const json document = {{"kind", info.kind},
                         {"vocab_size", info.vocab_size},
                         {"end_of_document", info.end_of_document},
                         {"hash", info.hash}};
  return WriteFileAtomic(InfoPath(prefix), document.dump(2) + "\n");
}

absl::StatusOr<TokenizerInfo> ReadTokenizerInfo(const std::string& prefix) {
  const std::string path = InfoPath(prefix);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  auto malformed = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return malformed("found no JSON object, expected one");
  if (document.size() != 4) {
    return malformed(absl::StrCat("found ", document.size(),
                                  " fields, expected kind, vocab_size, end_of_document, hash"));
  }
  for (const char* field : {"kind", "hash"}) {
    if (!document.contains(field) || !document[field].is_string()) {
      return malformed(absl::StrCat("field ", field, " is missing or no text, expected text"));
    }
  }
  for (const char* field : {"vocab_size", "end_of_document"}) {
    if (!document.contains(field) || !document[field].is_number_unsigned() ||
        document[field].get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()}) {
      return malformed(absl::StrCat("field ", field,
                                    " is missing or no count, expected a number in [0, 2^31)"));
    }
  }
  TokenizerInfo info{document["kind"], document["vocab_size"], document["end_of_document"],
                     document["hash"]};
  if (info.end_of_document >= info.vocab_size) {
    return malformed(absl::StrCat("field end_of_document: found ", info.end_of_document,
                                  ", expected a token below vocab_size ", info.vocab_size));
  }
  return info;
}

}  // namespace stretto
