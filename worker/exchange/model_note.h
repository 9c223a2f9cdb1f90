// SPDX-License-Identifier: Apache-2.0
#pragma once
// The note in a checkpoint that describes the model of its tensors: model.json, with the names of
// the job spec.
//   {"family": "llama", "layers": 2, "hidden": 64, ..., "tied_head": false, "weights": "BF16",
//    "rotary_scaling": {"kind": "llama3", ...}, "tokenizer": "files"}

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

inline constexpr char kModelNoteName[] = "model.json";

struct ModelNote {
  ModelSpec model;            // without dropout
  std::string dtype = "F32";  // of the weights that training started from
  std::string tokenizer;      // "bytes" or "files" (kTokenizerFiles beside it); empty: unknown
};

std::string ModelNoteText(const ModelNote& note);

// Strict. `path` names the text in errors. Errors: InvalidArgument (names key, found, expected).
absl::StatusOr<ModelNote> ParseModelNote(absl::string_view text, const std::string& path);

}  // namespace stretto
