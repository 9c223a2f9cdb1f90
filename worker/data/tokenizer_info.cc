// SPDX-License-Identifier: Apache-2.0
#include "worker/data/tokenizer_info.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

using nlohmann::json;

std::string InfoPath(const std::string& prefix) { return prefix + ".tokenizer.json"; }

}  // namespace

absl::Status WriteTokenizerInfo(const std::string& prefix, const TokenizerInfo& info, bool masked) {
  json document = {{"kind", info.kind},
                   {"vocab_size", info.vocab_size},
                   {"end_of_document", info.end_of_document},
                   {"hash", info.hash}};
  if (masked) document["masked"] = true;
  return WriteFileAtomic(InfoPath(prefix), document.dump(2) + "\n");
}

absl::StatusOr<DataNote> ReadDataNote(const std::string& prefix) {
  const std::string path = InfoPath(prefix);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  auto malformed = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return malformed("found no JSON object, expected one");
  const bool masked = document.contains("masked");
  if (document.size() != (masked ? 5 : 4)) {
    return malformed(absl::StrCat("found ", document.size(),
                                  " fields, expected kind, vocab_size, end_of_document, hash, and "
                                  "masked where there is a mask"));
  }
  if (masked && document["masked"] != true) {
    return malformed(absl::StrCat("field masked: found ", document["masked"].dump(),
                                  ", expected true or no such field"));
  }
  for (const char* field : {"kind", "hash"}) {
    if (!document.contains(field) || !document[field].is_string()) {
      return malformed(absl::StrCat("field ", field, " is missing or no text, expected text"));
    }
  }
  for (const char* field : {"vocab_size", "end_of_document"}) {
    if (!document.contains(field) || !document[field].is_number_unsigned() ||
        document[field].get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()}) {
      return malformed(
          absl::StrCat("field ", field, " is missing or no count, expected a number in [0, 2^31)"));
    }
  }
  TokenizerInfo info{document["kind"], document["vocab_size"], document["end_of_document"],
                     document["hash"]};
  if (info.end_of_document >= info.vocab_size) {
    return malformed(absl::StrCat("field end_of_document: found ", info.end_of_document,
                                  ", expected a token below vocab_size ", info.vocab_size));
  }
  return DataNote{std::move(info), masked};
}

absl::StatusOr<TokenizerInfo> ReadTokenizerInfo(const std::string& prefix) {
  ASSIGN_OR_RETURN(DataNote note, ReadDataNote(prefix));
  return std::move(note.tokenizer);
}

}  // namespace stretto
