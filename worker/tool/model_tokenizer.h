#pragma once
// The tokenizer that a model was trained with.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/data/text/tokenizer.h"
#include "worker/trainer/exchange/model_source.h"

namespace stretto {

// The one that is named (as MakeTokenizer takes it); without a name that of the model's files, a
// tokenizer.model before a tokenizer.json, or bytes where a checkpoint's note says so;
// `model` was opened by the checkpoint's own folder, then. Errors:
// NotFound (the model has none: says what to do), those of loading.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const ModelSource& model,
                                                       const std::string& name,
                                                       const std::string& end_of_document);

// InvalidArgument, with both numbers and what to do, if the tokenizer has tokens that are not in
// the model's vocabulary.
absl::Status CheckTokenizerFits(const Tokenizer& tokenizer, const ModelSource& model);

}  // namespace stretto
