// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto data prepare`: converts text files to a data set that jobs can train on.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/data/text/prepare_plan.h"
#include "worker/data/text/tokenizer.h"

namespace stretto {

struct PrepareProgress {
  int64_t bytes = 0, total_bytes = 0;  // of text
  int64_t resumed_bytes = 0;           // part of these, done by an earlier run
};

struct PrepareOptions {
  std::vector<std::string> inputs;  // in the form of ListInputFiles
  // Writes PREFIX.{bin,idx,tokenizer.json}, the folder PREFIX.tokenizer and, where not all is
  // trained on, PREFIX.mask.{bin,idx}.
  std::string prefix;
  bool overwrite = false;
  LineForm lines = {};
  int threads = 1;
  PieceSizes sizes = {};
  // Called after each piece, from any thread but never concurrently.
  std::function<void(const PrepareProgress&)> progress = {};
};

struct PrepareSummary {
  int64_t files = 0;           // text files read
  int64_t skipped_binary = 0;  // files with NUL bytes at their beginning
  int64_t documents = 0;       // documents with tokens: one per text file or line of JSON
  int64_t tokens = 0;          // including ends of documents
  int64_t trained_tokens = 0;  // of these, those whose loss counts
  int64_t bytes = 0;           // of text files
};

// Makes one document of every text file and of every line of a JSON lines file, each ended by the
// tokenizer's end of document. The result does not depend on `threads`. Encoded parts are kept in
// the folder PREFIX.parts until all are done; the same call after a failure or a crash continues
// from there. They take as much space as the result. Memory grows with `threads` and `sizes`, not
// with the input. On an error, either the tokens of an old data set at PREFIX are unchanged or
// those of the new one are complete. Errors: those of ListInputFiles and MakePreparePlan,
// InvalidArgument (no text, a line that is not of the form of `lines`, a text file where only lines
// are expected, text that the tokenizer refuses; names file and byte), AlreadyExists (output
// without `overwrite`), FailedPrecondition (another call is working on PREFIX, a folder
// PREFIX.parts that is not ours), ResourceExhausted (disk full).
absl::StatusOr<PrepareSummary> Prepare(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace stretto
