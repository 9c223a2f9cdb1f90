// SPDX-License-Identifier: Apache-2.0
#pragma once
// Early return on an error status. Abseil has Status but no such macros.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define STRETTO_CONCAT_INNER(a, b) a##b
#define STRETTO_CONCAT(a, b) STRETTO_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

// ASSIGN_OR_RETURN(auto value, Function()): declares or assigns the left side, or returns the
// error.
#define ASSIGN_OR_RETURN(left, expression) \
  ASSIGN_OR_RETURN_IMPL(STRETTO_CONCAT(status_or_, __LINE__), left, expression)
#define ASSIGN_OR_RETURN_IMPL(temporary, left, expression) \
  auto temporary = (expression);                           \
  if (!temporary.ok()) return temporary.status();          \
  left = std::move(temporary).value()
