#pragma once
// `stretto data prepare`: text files to a data set that jobs can train on.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/data/text/tokenizer.h"

namespace stretto {

struct PrepareOptions {
  std::vector<std::string> inputs;  // files, or folders that are walked in sorted order
  std::string prefix;               // writes PREFIX.bin, PREFIX.idx and PREFIX.tokenizer.json
  bool overwrite = false;
};

struct PrepareSummary {
  int64_t files = 0;           // text files read
  int64_t skipped_binary = 0;  // files with NUL bytes
  int64_t documents = 0;       // one per file that is not empty
  int64_t tokens = 0;          // ends of documents included
  int64_t bytes = 0;           // of text
};

// Every text file becomes one document, ended by the tokenizer's end of document. Folders are
// walked recursively, links to folders not followed, and files that are not regular left out.
// Errors: InvalidArgument (no input file, no text in any, an input that is neither file nor
// folder), NotFound or PermissionDenied (names the input), AlreadyExists (output without
// `overwrite`), ResourceExhausted (disk full). On an error the tokens of an old data set at PREFIX
// stay as they were, or those of the new one are whole.
absl::StatusOr<PrepareSummary> Prepare(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace stretto
