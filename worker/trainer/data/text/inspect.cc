#include "worker/trainer/data/text/inspect.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/trainer/data/indexed_dataset.h"
#include "worker/trainer/data/tokenizer_info.h"

namespace stretto {
namespace {

using nlohmann::ordered_json;

struct Lengths {
  int64_t shortest = std::numeric_limits<int64_t>::max(), longest = 0;
};

Lengths MeasureDocuments(const IndexedDataset& dataset) {
  Lengths lengths;
  for (int64_t i = 0, sequence = 0; i < dataset.document_count(); ++i) {
    int64_t length = 0;
    for (const int64_t end = dataset.FirstSequence(i + 1); sequence < end; ++sequence) {
      length += dataset.SequenceLength(sequence);
    }
    lengths.shortest = std::min(lengths.shortest, length);
    lengths.longest = std::max(lengths.longest, length);
  }
  return lengths;
}

absl::StatusOr<ordered_json> FirstDocuments(const IndexedDataset& dataset, int32_t vocab_size,
                                            const InspectOptions& options) {
  ordered_json documents = ordered_json::array();
  int64_t begin = 0, sequence = 0;
  for (int64_t i = 0; i < std::min(options.documents, dataset.document_count()); ++i) {
    int64_t length = 0;
    for (const int64_t end = dataset.FirstSequence(i + 1); sequence < end; ++sequence) {
      length += dataset.SequenceLength(sequence);
    }
    std::vector<int32_t> tokens(static_cast<size_t>(std::min(length, options.tokens)));
    RETURN_IF_ERROR(dataset.Read(begin, vocab_size, tokens));
    ordered_json document = {{"length", length}, {"tokens", tokens}};
    if (options.tokenizer != nullptr) {
      ASSIGN_OR_RETURN(const std::string text, options.tokenizer->Decode(tokens));
      document["text"] = text;
    }
    documents.push_back(std::move(document));
    begin += length;
  }
  return documents;
}

std::string Text(const ordered_json& report) {
  const auto count = [](const ordered_json& value) { return FormatCount(value.get<double>()); };
  std::string text = absl::StrCat(
      report["prefix"].get<std::string>(), ": ", count(report["tokens"]), " tokens (",
      report["type"].get<std::string>(), ") in ", count(report["documents"]), " documents of ",
      count(report["shortest_document"]), " to ", count(report["longest_document"]), " tokens\n");
  const ordered_json& tokenizer = report["tokenizer"];
  if (tokenizer.is_null()) {
    absl::StrAppend(&text, "tokenizer: no note beside it (PREFIX.tokenizer.json)\n");
  } else {
    absl::StrAppend(&text, "tokenizer ", tokenizer["kind"].get<std::string>(), ", vocabulary ",
                    tokenizer["vocab_size"].get<int64_t>(), ", end of document ",
                    tokenizer["end_of_document"].get<int64_t>(), ", hash ",
                    tokenizer["hash"].get<std::string>(), "\n");
  }
  if (report["checked"]) absl::StrAppend(&text, "every token is in the vocabulary\n");
  int64_t number = 0;
  for (const ordered_json& document : report["first_documents"]) {
    const auto tokens = document["tokens"].get<std::vector<int32_t>>();
    const int64_t length = document["length"];
    absl::StrAppend(&text, "document ", number++, ", ", length,
                    " tokens: ", absl::StrJoin(tokens, " "),
                    length > static_cast<int64_t>(tokens.size()) ? " ..." : "", "\n");
    if (document.contains("text")) {
      absl::StrAppend(&text, "  \"", absl::Utf8SafeCEscape(document["text"].get<std::string>()),
                      "\"\n");
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> InspectDataset(const InspectOptions& options) {
  ASSIGN_OR_RETURN(const IndexedDataset dataset, IndexedDataset::Open(options.prefix));
  std::optional<TokenizerInfo> info;
  absl::StatusOr<TokenizerInfo> note = ReadTokenizerInfo(options.prefix);
  if (note.ok()) info = *std::move(note);
  if (!note.ok() && !absl::IsNotFound(note.status())) return note.status();
  if (options.tokenizer != nullptr && info.has_value() && *info != options.tokenizer->info()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.prefix, ": found tokens of tokenizer ", info->kind, " with hash ", info->hash,
        ", expected the one that is named, ", options.tokenizer->info().kind, " with hash ",
        options.tokenizer->info().hash));
  }
  const int32_t vocab_size =
      info.has_value() ? info->vocab_size : std::numeric_limits<int32_t>::max();
  if (options.check) RETURN_IF_ERROR(dataset.CheckTokens(vocab_size, dataset.token_count()));
  const Lengths lengths = MeasureDocuments(dataset);
  ordered_json report = {{"prefix", options.prefix},
                         {"type", NameOf(dataset.type())},
                         {"tokens", dataset.token_count()},
                         {"documents", dataset.document_count()},
                         {"sequences", dataset.sequence_count()},
                         {"shortest_document", lengths.shortest},
                         {"longest_document", lengths.longest},
                         {"checked", options.check},
                         {"tokenizer", nullptr}};
  if (info.has_value()) {
    report["tokenizer"] = {{"kind", info->kind},
                           {"vocab_size", info->vocab_size},
                           {"end_of_document", info->end_of_document},
                           {"hash", info->hash}};
  }
  ASSIGN_OR_RETURN(report["first_documents"], FirstDocuments(dataset, vocab_size, options));
  if (!options.json) return Text(report);
  return report.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stretto
