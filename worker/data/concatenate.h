// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several data sets as one, in memory that does not grow with their size.

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace stretto {

struct DatasetPart {
  std::string prefix;
  bool open = false;  // the last document goes on in the next part
};

// Writes all tokens, sequences and documents of `parts`, in their order, as the data set PREFIX. An
// old one there is replaced. Errors: those of IndexedDataset::Open, InvalidArgument (parts of
// different token types), those of ErrnoStatus; PREFIX is then as it was.
absl::Status ConcatenateDatasets(const std::vector<DatasetPart>& parts, const std::string& prefix);

}  // namespace stretto
