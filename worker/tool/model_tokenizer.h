// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tokenizer that a model was trained with.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/text/tokenizer.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Whether the model is a checkpoint, opened by its own folder, whose note says that its tokens are
// bytes. Errors: those of reading the note.
absl::StatusOr<bool> TrainedOnBytes(const ModelSource& model);

// The one that is named (as MakeTokenizer takes it); without a name that of the model's files, its
// tokenizer.json, or tokenizer.model where that is refused or missing, or bytes where a
// checkpoint's note says so; `model` was opened by the checkpoint's own folder, then. Errors:
// InvalidArgument (`end_of_document` for another than a tokenizer.json), NotFound (the model has
// none: says what to do), those of loading.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const ModelSource& model,
                                                       const std::string& name,
                                                       const std::string& end_of_document);

// InvalidArgument, with both numbers and what to do, if the tokenizer has tokens that are not in
// the model's vocabulary.
absl::Status CheckTokenizerFits(const Tokenizer& tokenizer, const ModelSource& model);

}  // namespace stretto
