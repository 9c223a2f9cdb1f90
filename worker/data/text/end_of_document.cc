// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/end_of_document.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/text/beside.h"

namespace stretto {
namespace {

using nlohmann::json;

// On the Hub, only config.json of GPT-2 names its end of document, and a checkpoint has no
// config.json.
constexpr char kGpt2End[] = "<|endoftext|>";

// Returns the member of the JSON object in the file; null if there is no file or no such member.
absl::StatusOr<json> MemberOfFile(const std::string& path, const char* key) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return json();
  RETURN_IF_ERROR(text.status());
  const json document = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": found no JSON object, expected one"));
  }
  return document.value(key, json());
}

}  // namespace

absl::StatusOr<std::string> EndOfDocumentBeside(const std::string& path,
                                                const std::vector<AddedToken>& added) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    ASSIGN_OR_RETURN(json token, MemberOfFile(Beside(path, name), "eos_token"));
    if (token.is_object()) token = json(token.value("content", json()));
    if (token.is_string()) return token.get<std::string>();
  }
  for (const char* name : {"config.json", "generation_config.json"}) {
    const std::string file = Beside(path, name);
    ASSIGN_OR_RETURN(json id, MemberOfFile(file, "eos_token_id"));
    if (id.is_array() && !id.empty()) id = json(id[0]);
    if (!id.is_number_integer()) continue;
    const auto found = std::find_if(added.begin(), added.end(),
                                    [&](const AddedToken& token) { return id == token.token; });
    if (found != added.end()) return found->text;
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": found eos_token_id ", id.dump(),
        ", expected an added token of the tokenizer.json; --end-of-document names one"));
  }
  const bool gpt2 = std::any_of(added.begin(), added.end(),
                                [](const AddedToken& token) { return token.text == kGpt2End; });
  return gpt2 ? kGpt2End : "";
}

}  // namespace stretto
