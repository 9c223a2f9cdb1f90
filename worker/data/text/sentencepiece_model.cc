// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <utility>

namespace stretto {

SentencePieceModel::SentencePieceModel(
    std::unique_ptr<sentencepiece::SentencePieceProcessor> processor)
    : processor_(std::move(processor)) {}

SentencePieceModel::~SentencePieceModel() = default;

std::unique_ptr<SentencePieceModel> SentencePieceModel::Parse(const std::string& serialized,
                                                              std::string* error) {
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  // Of some damaged models the library throws instead.
  try {
    const auto status = processor->LoadFromSerializedProto(serialized);
    if (!status.ok()) {
      *error = status.ToString();
      return nullptr;
    }
  } catch (const std::exception& thrown) {
    *error = thrown.what();
    return nullptr;
  }
  return std::unique_ptr<SentencePieceModel>(new SentencePieceModel(std::move(processor)));
}

int32_t SentencePieceModel::vocab_size() const { return processor_->GetPieceSize(); }

int32_t SentencePieceModel::end_of_document() const { return processor_->eos_id(); }

std::string SentencePieceModel::Encode(std::string_view text, std::vector<int32_t>* tokens) const {
  const auto status = processor_->Encode(text, tokens);
  return status.ok() ? std::string() : status.ToString();
}

std::string SentencePieceModel::Decode(const std::vector<int32_t>& tokens,
                                       std::string* text) const {
  const auto status = processor_->Decode(tokens, text);
  return status.ok() ? std::string() : status.ToString();
}

}  // namespace stretto
