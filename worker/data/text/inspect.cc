// SPDX-License-Identifier: Apache-2.0

// Opens a data set of either format, walks its documents for their number and lengths, decodes the
// first ones if a tokenizer is given, and formats the report as a document or, from that document,
// as text. A given tokenizer must be the one in the note beside the data.

#include "worker/data/text/inspect.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/data/mask.h"
#include "worker/data/open_tokens.h"
#include "worker/data/tokenizer_info.h"

namespace stretto {
namespace {

struct Documents {
  int64_t count = 0, shortest = std::numeric_limits<int64_t>::max(), longest = 0;
};

Documents Measure(const TokenStream& tokens) {
  Documents documents;
  const int64_t count = tokens.token_count();
  for (int64_t begin = 0; begin < count;) {
    const int64_t end = tokens.FindDocument(begin + 1, count);
    ++documents.count;
    documents.shortest = std::min(documents.shortest, end - begin);
    documents.longest = std::max(documents.longest, end - begin);
    begin = end;
  }
  return documents;
}

// Returns the text of those of the tokens from `begin` on that are trained on.
absl::StatusOr<std::string> TrainedText(const TokenStream& mask, int64_t begin,
                                        const std::vector<int32_t>& tokens,
                                        const Tokenizer& tokenizer) {
  std::vector<int32_t> trained(tokens.size()), kept;
  RETURN_IF_ERROR(mask.Read(begin, kMaskValues, trained));
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (trained[i] == 1) kept.push_back(tokens[i]);
  }
  return tokenizer.Decode(kept);
}

// `mask` is null if all tokens are trained on.
absl::StatusOr<Document> FirstDocuments(const TokenStream& stream, const TokenStream* mask,
                                        int32_t vocab_size, const InspectOptions& options) {
  Document documents = Document::array();
  const int64_t count = stream.token_count();
  for (int64_t i = 0, begin = 0; i < options.documents && begin < count; ++i) {
    const int64_t end = stream.FindDocument(begin + 1, count), length = end - begin;
    std::vector<int32_t> tokens(std::min(length, options.tokens));
    RETURN_IF_ERROR(stream.Read(begin, vocab_size, tokens));
    Document document = {{"length", length}, {"tokens", tokens}};
    if (options.tokenizer != nullptr) {
      ASSIGN_OR_RETURN(const std::string text, options.tokenizer->Decode(tokens));
      document["text"] = text;
      if (mask != nullptr) {
        ASSIGN_OR_RETURN(document["trained_text"],
                         TrainedText(*mask, begin, tokens, *options.tokenizer));
      }
    }
    documents.push_back(std::move(document));
    begin = end;
  }
  return documents;
}

std::string Text(const Document& report) {
  const auto count = [](const Document& value) { return FormatCount(value.get<double>()); };
  std::string text = absl::StrCat(
      report["prefix"].get<std::string>(), ": ", count(report["tokens"]), " tokens (",
      report["type"].get<std::string>(), ") in ", count(report["documents"]), " documents of ",
      count(report["shortest_document"]), " to ", count(report["longest_document"]), " tokens\n");
  const Document& tokenizer = report["tokenizer"];
  if (tokenizer.is_null()) {
    absl::StrAppend(&text, "tokenizer: no note beside it (PREFIX.tokenizer.json)\n");
  } else {
    absl::StrAppend(&text, "tokenizer ", tokenizer["kind"].get<std::string>(), ", vocabulary ",
                    tokenizer["vocab_size"].get<int64_t>(), ", end of document ",
                    tokenizer["end_of_document"].get<int64_t>(), ", hash ",
                    tokenizer["hash"].get<std::string>(), "\n");
  }
  if (report.contains("trained_tokens")) {
    absl::StrAppend(&text, count(report["trained_tokens"]),
                    " tokens are trained on (PREFIX.mask)\n");
  }
  if (report["checked"]) absl::StrAppend(&text, "every token is in the vocabulary\n");
  int64_t number = 0;
  for (const Document& document : report["first_documents"]) {
    const auto tokens = document["tokens"].get<std::vector<int32_t>>();
    const int64_t length = document["length"];
    absl::StrAppend(&text, "document ", number++, ", ", length,
                    " tokens: ", absl::StrJoin(tokens, " "),
                    length > static_cast<int64_t>(tokens.size()) ? " ..." : "", "\n");
    if (document.contains("text")) {
      absl::StrAppend(&text, "  \"", absl::Utf8SafeCEscape(document["text"].get<std::string>()),
                      "\"\n");
    }
    if (document.contains("trained_text")) {
      absl::StrAppend(&text, "  trained on \"",
                      absl::Utf8SafeCEscape(document["trained_text"].get<std::string>()), "\"\n");
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> InspectDataset(const InspectOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TokenStream> stream, OpenTokens(options.name));
  ASSIGN_OR_RETURN(const std::string prefix, DataPath(options.name));
  std::optional<TokenizerInfo> info;
  std::unique_ptr<TokenStream> mask;
  absl::StatusOr<DataNote> note = ReadDataNote(prefix);
  if (note.ok()) {
    info = std::move(note->tokenizer);
    if (note->masked) {
      ASSIGN_OR_RETURN(mask, OpenMask(prefix, *stream));
    }
  } else if (!absl::IsNotFound(note.status())) {
    return note.status();
  }
  if (options.tokenizer != nullptr && info.has_value() && *info != options.tokenizer->info()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.name, ": found tokens of tokenizer ", info->kind, " with hash ", info->hash,
        ", expected the one that is named, ", options.tokenizer->info().kind, " with hash ",
        options.tokenizer->info().hash));
  }
  const bool known = info.has_value() || options.tokenizer != nullptr;
  const int32_t vocab_size = info.has_value() ? info->vocab_size
                             : known          ? options.tokenizer->info().vocab_size
                                              : std::numeric_limits<int32_t>::max();
  if (options.check) RETURN_IF_ERROR(stream->CheckTokens(vocab_size, stream->token_count()));
  const Documents documents = Measure(*stream);
  Document report = {{"prefix", options.name},
                     {"type", NameOf(stream->type())},
                     {"tokens", stream->token_count()},
                     {"documents", documents.count},
                     {"shortest_document", documents.shortest},
                     {"longest_document", documents.longest},
                     {"checked", options.check && known},
                     {"tokenizer", nullptr}};
  if (info.has_value()) {
    report["tokenizer"] = {{"kind", info->kind},
                           {"vocab_size", info->vocab_size},
                           {"end_of_document", info->end_of_document},
                           {"hash", info->hash}};
  }
  if (mask != nullptr) {
    ASSIGN_OR_RETURN(report["trained_tokens"], CountTrained(*mask, 0, mask->token_count()));
  }
  ASSIGN_OR_RETURN(report["first_documents"],
                   FirstDocuments(*stream, mask.get(), vocab_size, options));
  return options.format == OutputFormat::kTable ? Text(report) : TextOf(report, options.format);
}

}  // namespace stretto
