// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of jobs and workers, with and without their collection.

#include <string>

#include "absl/strings/string_view.h"

namespace stretto::cli {

// "jobs/x" and "x" -> "jobs/x".
std::string ResourceName(absl::string_view collection, absl::string_view name);
// "jobs/x" -> "x".
std::string ShortResourceName(absl::string_view name);

}  // namespace stretto::cli
