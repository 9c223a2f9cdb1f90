// SPDX-License-Identifier: Apache-2.0
#include "worker/tool/model_tokenizer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/exchange/model_note.h"
#include "worker/tool/model_name.h"

namespace stretto {
namespace {

constexpr char kHint[] =
    "--tokenizer names the one that the model was trained with: bytes, sentencepiece:MODEL_FILE or "
    "hf:FOLDER";

// Returns the path of a file in that folder; empty if it is not among the files.
std::string FileNamed(const std::vector<std::string>& files, const std::string& name) {
  for (const std::string& file : files) {
    if (absl::EndsWith(file, absl::StrCat("/", name))) return file;
  }
  return "";
}

}  // namespace

absl::StatusOr<bool> TrainedOnBytes(const ModelSource& model) {
  if (!NamesCheckpoint(model.name())) return false;
  const std::string path = absl::StrCat(model.name(), "/", kModelNoteName);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const ModelNote note, ParseModelNote(text, path));
  return note.tokenizer == "bytes";
}

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const ModelSource& model,
                                                       const std::string& name,
                                                       const std::string& end_of_document) {
  if (!name.empty()) return MakeTokenizer(name, end_of_document);
  const std::vector<std::string> files = model.tokenizer_files();
  const std::string json = FileNamed(files, "tokenizer.json");
  const std::string sentencepiece = FileNamed(files, "tokenizer.model");
  if (!json.empty()) {
    auto tokenizer = LoadBytePairTokenizer(json, end_of_document);
    // Llama 2's tokenizer.json has byte fallback, but a SentencePiece model of the same tokenizer
    // is beside it.
    if (sentencepiece.empty() || !absl::IsInvalidArgument(tokenizer.status())) return tokenizer;
  }
  if (!sentencepiece.empty()) {
    return MakeTokenizer(absl::StrCat("sentencepiece:", sentencepiece), end_of_document);
  }
  ASSIGN_OR_RETURN(const bool bytes, TrainedOnBytes(model));
  if (bytes) return MakeTokenizer("bytes", end_of_document);
  return absl::NotFoundError(absl::StrCat(
      model.name(), ": found no tokenizer.json or tokenizer.model, expected one; ", kHint));
}

absl::Status CheckTokenizerFits(const Tokenizer& tokenizer, const ModelSource& model) {
  const int32_t tokens = tokenizer.info().vocab_size, vocab = model.model().vocab_size;
  if (tokens <= vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer: found ", tokens, " tokens, expected at most the ", vocab,
                   " of the vocabulary of ", model.name(), "; ", kHint));
}

}  // namespace stretto
