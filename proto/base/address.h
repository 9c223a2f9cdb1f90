// SPDX-License-Identifier: Apache-2.0
#pragma once
// Network addresses as flags write them.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

struct Address {
  std::string host;  // an IPv6 one without its brackets
  int port = 0;      // 0 to 65535
};

// Of "HOST:PORT", an IPv6 host in brackets. INVALID_ARGUMENT: `found "...", expected HOST:PORT`.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

// 127.0.0.0/8, ::1 or localhost.
bool IsLoopback(const Address& address);

}  // namespace stretto
