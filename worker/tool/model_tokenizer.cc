#include "worker/tool/model_tokenizer.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/tool/model_name.h"
#include "worker/trainer/exchange/model_note.h"

namespace stretto {
namespace {

constexpr char kHint[] =
    "--tokenizer names the one that the model was trained with: bytes, sentencepiece:MODEL_FILE or "
    "hf:FOLDER";

// Whether the note of the checkpoint of that name says that its tokens are bytes.
absl::StatusOr<bool> NoteSaysBytes(const std::string& name) {
  if (!NamesCheckpoint(name)) return false;
  const std::string path = absl::StrCat(name, "/", kModelNoteName);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const ModelNote note, ParseModelNote(text, path));
  return note.tokenizer == "bytes";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const ModelSource& model,
                                                       const std::string& name,
                                                       const std::string& end_of_document) {
  if (!name.empty()) return MakeTokenizer(name, end_of_document);
  const std::vector<std::string> files = model.tokenizer_files();
  for (const std::string& file : files) {
    if (absl::EndsWith(file, "/tokenizer.model")) return LoadSentencePieceTokenizer(file);
  }
  for (const std::string& file : files) {
    if (!absl::EndsWith(file, "/tokenizer.json")) continue;
    return LoadBytePairTokenizer(file, end_of_document);
  }
  ASSIGN_OR_RETURN(const bool bytes, NoteSaysBytes(model.name()));
  if (bytes) return MakeByteTokenizer();
  return absl::NotFoundError(absl::StrCat(
      model.name(), ": found no tokenizer.model or tokenizer.json, expected one; ", kHint));
}

absl::Status CheckTokenizerFits(const Tokenizer& tokenizer, const ModelSource& model) {
  const int32_t tokens = tokenizer.info().vocab_size, vocab = model.model().vocab_size;
  if (tokens <= vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tokenizer: found ", tokens, " tokens, expected at most the ", vocab,
                   " of the vocabulary of ", model.name(), "; ", kHint));
}

}  // namespace stretto
