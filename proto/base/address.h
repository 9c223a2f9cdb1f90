// SPDX-License-Identifier: Apache-2.0
#pragma once
// Network addresses in the form of flags.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

struct Address {
  std::string host;  // an IPv6 address without its brackets
  int port = 0;      // 0 to 65535
};

// Parses "HOST:PORT", with an IPv6 host in brackets. Errors: INVALID_ARGUMENT `found "...",
// expected HOST:PORT`.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// Parses one or more addresses, separated by commas, and returns each as it was given. Errors:
// INVALID_ARGUMENT, as ParseAddress, or for an address that is given twice.
absl::StatusOr<std::vector<std::string>> ParseAddressList(absl::string_view text);

// Returns true for 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(const Address& address);

}  // namespace stretto
