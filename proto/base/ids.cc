// SPDX-License-Identifier: Apache-2.0
#include "proto/base/ids.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "proto/base/random_bytes.h"

namespace stretto {

bool IsValidName(const std::string& name) {
  if (name.empty() || name.size() > 63) return false;
  if (name.front() < 'a' || name.front() > 'z' || name.back() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

std::string NewUid() {
  constexpr size_t kUidBytes = 16;
  return absl::BytesToHexString(RandomBytes(kUidBytes));
}

}  // namespace stretto
