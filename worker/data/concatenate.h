// SPDX-License-Identifier: Apache-2.0
#pragma once
// Joins several data sets into one, in memory that does not grow with their size.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stretto {

struct DatasetPart {
  std::string prefix;
  bool open = false;  // the last document continues in the next part
};

// Writes all tokens, sequences and documents of `parts`, in their order, as the data set PREFIX,
// and replaces an old one. Errors: those of IndexedDataset::Open, InvalidArgument (parts of
// different token types), those of ErrnoStatus; then PREFIX is unchanged.
absl::Status ConcatenateDatasets(const std::vector<DatasetPart>& parts, const std::string& prefix);

// Does the same up to the point at which PREFIX would change: CommitDataset does the rest.
absl::Status StageConcatenation(const std::vector<DatasetPart>& parts, const std::string& prefix);

}  // namespace stretto
