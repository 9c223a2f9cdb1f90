// SPDX-License-Identifier: Apache-2.0
#include "proto/base/address.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/printable.h"

namespace stretto {

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError(
      absl::StrCat("found \"", absl::CHexEscape(text.substr(0, 80)), "\", expected HOST:PORT"));
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return malformed;
  absl::string_view host = text.substr(0, colon);
  if (host.find_first_of(", \t\r\n") != absl::string_view::npos) return malformed;
  if (absl::StrContains(host, ":") || host.front() == '[') {
    if (host.front() != '[' || host.back() != ']') return malformed;
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty() || !IsPrintable(host)) return malformed;
  Address address{std::string(host), 0};
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > 65535) {
    return malformed;
  }
  return address;
}

absl::StatusOr<std::vector<std::string>> ParseAddressList(absl::string_view text) {
  std::vector<std::string> addresses;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (const absl::StatusOr<Address> address = ParseAddress(part); !address.ok()) {
      return address.status();
    }
    if (std::find(addresses.begin(), addresses.end(), part) != addresses.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("found \"", part, "\" twice, expected different addresses"));
    }
    addresses.emplace_back(part);
  }
  return addresses;
}

bool IsLoopback(const Address& address) {
  return address.host == "localhost" || address.host == "::1" ||
         (absl::StartsWith(address.host, "127.") &&
          address.host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace stretto
