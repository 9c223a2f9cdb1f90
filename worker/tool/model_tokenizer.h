// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds the tokenizer that a model was trained with.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/text/tokenizer.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Whether the model is a checkpoint, opened by its own folder, whose note names bytes as its
// tokenizer. Errors: those of reading the note.
absl::StatusOr<bool> TrainedOnBytes(const ModelSource& model);

// Loads the named tokenizer (in the form of MakeTokenizer). Without a name it loads the model's:
// its tokenizer.json; or tokenizer.model if that is refused or missing; or bytes if the
// checkpoint's note says so, for which `model` must have been opened by the checkpoint's own
// folder. Errors: InvalidArgument (`end_of_document` for anything but a tokenizer.json), NotFound
// (the model has none; says what to do), those of loading.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const ModelSource& model,
                                                       const std::string& name,
                                                       const std::string& end_of_document);

// Returns InvalidArgument, with both numbers and what to do, if the tokenizer has tokens outside
// the model's vocabulary.
absl::Status CheckTokenizerFits(const Tokenizer& tokenizer, const ModelSource& model);

}  // namespace stretto
