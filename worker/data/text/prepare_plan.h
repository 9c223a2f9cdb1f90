// SPDX-License-Identifier: Apache-2.0
#pragma once
// The plan of `data prepare`: parts of about 64 MiB that are encoded one by one, each made of
// pieces of about 4 MiB that are held in memory. It depends only on the files, not on the number of
// threads.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/text/input_files.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

struct ChatFormat;

// Bytes [begin, end) of a file: text of one document, or complete lines of JSON.
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
  std::string fingerprint;  // of all file properties that the tokens depend on
};

// What a line of JSON has.
struct LineForm {
  std::string key = "text";          // of a document, all of which is trained on
  const ChatFormat* chat = nullptr;  // not null: no key, but what conversation.h describes
};

struct PieceSizes {
  int64_t piece = 4 << 20;
  int64_t part = 64 << 20;
  int64_t longest_whole = 256 << 20;  // maximum for documents and lines of JSON that cannot be cut
};

// Cuts text where the tokenizer allows it, and JSON after a line. Errors: InvalidArgument (a
// document or a line that cannot be cut and is longer than longest_whole), those of reading.
absl::StatusOr<PreparePlan> MakePreparePlan(std::vector<InputFile> files, const PieceSizes& sizes,
                                            const Tokenizer& tokenizer, const LineForm& lines);

}  // namespace stretto
