// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/same_tokenizer.h"

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checksums.h"
#include "worker/data/tokenizer_info.h"

namespace stretto::trainer {

absl::Status CheckTokenizerOfWeights(const TrainingData& data, const Origin& weights) {
  if (data.tokenizer_prefix().empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const TokenizerInfo info, ReadTokenizerInfo(data.tokenizer_prefix()));
  std::vector<std::string> found;
  for (const std::string& path : weights.tokenizer_files) {
    const std::string name = std::filesystem::path(path).filename().string();
    // Data is prepared with one of the first two. vocab.json may describe the same tokenizer.
    const bool compared = name == "tokenizer.json" || name == "tokenizer.model" ||
                          (name == "vocab.json" && info.kind == "bytes");
    if (!compared) continue;
    ASSIGN_OR_RETURN(const Attachment file, ReadAttachment(path, weights.root));
    Checksums checksums;
    checksums.Add(file.content);
    const std::string hash = checksums.Finish(path).sha256;
    if (hash == info.hash) return absl::OkStatus();
    found.push_back(absl::StrCat(path, " with hash ", hash));
  }
  if (found.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      data.tokenizer_prefix(), ".tokenizer.json: found tokenizer ", info.kind, " with hash ",
      info.hash, ", expected that of the weights, ", absl::StrJoin(found, " or "),
      ": prepare the data with it, or set data.allow_other_tokenizer"));
}

}  // namespace stretto::trainer
