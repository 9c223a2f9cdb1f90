// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the work of `data prepare` is cut: parts of some 64 MiB that are encoded one by one, each
// made of pieces of some 4 MiB that are held in memory. It depends on the files alone, not on
// threads.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/text/input_files.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

// Bytes [begin, end) of a file: text of one document, or whole lines of JSON.
struct Piece {
  int file = 0;
  int64_t begin = 0, end = 0;
  bool ends_document = true;
};

struct PreparePart {
  std::vector<Piece> pieces;
};

struct PreparePlan {
  std::vector<InputFile> files;
  std::vector<PreparePart> parts;
  int64_t bytes = 0;        // of all pieces
  std::string fingerprint;  // of everything the tokens depend on, as far as files tell
};

struct PieceSizes {
  int64_t piece = 4 << 20;
  int64_t part = 64 << 20;
  int64_t longest_whole = 256 << 20;  // of what cannot be cut: documents, lines of JSON
};

// Text is cut where the tokenizer allows it, JSON behind a line. Errors: InvalidArgument (a
// document or a line that cannot be cut and is longer than longest_whole), those of reading.
absl::StatusOr<PreparePlan> MakePreparePlan(std::vector<InputFile> files, const PieceSizes& sizes,
                                            const Tokenizer& tokenizer,
                                            const std::string& json_key);

}  // namespace stretto
