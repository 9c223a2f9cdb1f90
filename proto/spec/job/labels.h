// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of labels, which are those of Kubernetes, so that a label can be the same in both.

#include "absl/strings/string_view.h"

namespace stretto::spec {

// Whether `key` is NAME or PREFIX/NAME. NAME is a label value that is not empty; PREFIX is a domain
// of at most 253 characters: parts of a-z, 0-9 and "-" with "." between them, each of which begins
// and ends with a letter or digit.
bool IsLabelKey(absl::string_view key);

// Whether `value` is empty, or has at most 63 letters, digits, "-", "_" and ".", the first and the
// last of which is a letter or digit.
bool IsLabelValue(absl::string_view value);

// What is expected, for messages.
inline constexpr char kLabelKeyRule[] =
    "NAME or DOMAIN/NAME, where NAME has 1 to 63 of [A-Za-z0-9._-] and begins and ends with a "
    "letter or digit";
inline constexpr char kLabelValueRule[] =
    "nothing, or 1 to 63 of [A-Za-z0-9._-] that begin and end with a letter or digit";

}  // namespace stretto::spec
