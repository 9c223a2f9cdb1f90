// SPDX-License-Identifier: Apache-2.0
#pragma once
// What both formats' exports have in common.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/exchange/export_model.h"

namespace stretto {

// The type to write: the one asked for, or the source's. Errors: InvalidArgument (an unknown one).
absl::StatusOr<std::string> ExportDtype(const ModelSource& source, const ExportOptions& options);

// Byte for byte, into `folder`.
absl::Status CopyTokenizer(const ModelSource& source, const std::string& folder);

}  // namespace stretto
