// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto data prepare`: text files to a data set that jobs can train on.

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
  int64_t resumed_bytes = 0;           // of these, done by an earlier run
};

struct PrepareOptions {
  std::vector<std::string> inputs;  // as ListInputFiles takes them
  std::string prefix;  // writes PREFIX.{bin,idx,tokenizer.json}, and the folder PREFIX.tokenizer
  bool overwrite = false;
  std::string json_key = "text";  // of lines of JSON: the member that is the document
  int threads = 1;
  PieceSizes sizes = {};
  // Told after each piece, from any thread but one at a time.
  std::function<void(const PrepareProgress&)> progress = {};
};

struct PrepareSummary {
  int64_t files = 0;           // text files read
  int64_t skipped_binary = 0;  // files with NUL bytes at their beginning
  int64_t documents = 0;       // that are not empty: one per text file or line of JSON
  int64_t tokens = 0;          // ends of documents included
  int64_t bytes = 0;           // of text files
};

// Every text file and every line of a JSON lines file becomes one document, ended by the
// tokenizer's end of document. The result does not depend on `threads`. What is encoded is kept in
// the folder PREFIX.parts until all is done, and the same call after a failure or a crash goes on
// from there; it takes as much space as the result. Memory grows with `threads` and `sizes`, not
// with the input. Errors: those of ListInputFiles and MakePreparePlan, InvalidArgument (no text, a
// line that is no JSON object with `json_key`, text the tokenizer refuses; names file and byte),
// AlreadyExists (output without `overwrite`), FailedPrecondition
// (another call at work on PREFIX, a folder PREFIX.parts that is not ours), ResourceExhausted (disk
// full). On an error the tokens of an old data set at PREFIX stay as they were, or those of the new
// one are whole.
absl::StatusOr<PrepareSummary> Prepare(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace stretto
