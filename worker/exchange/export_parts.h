// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts that exports in both formats share.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/exchange/export_model.h"

namespace stretto {

// Returns the type to write: the requested one, or the source's. Errors: InvalidArgument (an
// unknown one).
absl::StatusOr<std::string> ExportDtype(const ModelSource& source, const ExportOptions& options);

// Copies the tokenizer's files to `folder`, byte for byte.
absl::Status CopyTokenizer(const ModelSource& source, const std::string& folder);

}  // namespace stretto
