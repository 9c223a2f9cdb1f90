// SPDX-License-Identifier: Apache-2.0
#include "worker/data/batch.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

std::string BatchText(const Document& batch) {
  std::string text;
  for (const Document& sample : batch["samples"]) {
    const auto tokens = sample["tokens"].get<std::vector<int32_t>>();
    const bool more = static_cast<int64_t>(tokens.size()) < batch["sequence_length"];
    absl::StrAppend(&text, "sample ", sample["sample"].get<int64_t>(), ": ",
                    sample["data"].get<std::string>(), " at token ", sample["begin"].get<int64_t>(),
                    ": ", absl::StrJoin(tokens, " "), more ? " ..." : "", "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> DescribeBatch(const BatchOptions& options) {
  ASSIGN_OR_RETURN(const TrainingData data, TrainingData::Open(options.data));
  const int64_t length = options.data.sequence_length;
  const int64_t shown = std::min(options.tokens, length);
  const int64_t first = (options.step - 1) * options.sequences;
  Document batch = {{"step", options.step},
                    {"seed", options.data.seed},
                    {"sequence_length", length},
                    {"samples", Document::array()}};
  std::vector<int32_t> tokens(length), targets(tokens.size());
  for (int64_t sample = first; sample < first + options.sequences; ++sample) {
    const auto [stream, begin] = data.train().Locate(sample);
    RETURN_IF_ERROR(data.train().ReadBatch(sample, 1, tokens.data(), targets.data()));
    batch["samples"].push_back(
        {{"sample", sample},
         {"data", stream->name()},
         {"begin", begin},
         {"tokens", std::vector<int32_t>(tokens.begin(), tokens.begin() + shown)}});
  }
  return options.format == OutputFormat::kTable ? BatchText(batch) : TextOf(batch, options.format);
}

}  // namespace stretto
