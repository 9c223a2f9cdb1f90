// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/resource_name.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stretto::cli {

std::string ResourceName(absl::string_view collection, absl::string_view name) {
  const std::string prefix = absl::StrCat(collection, "/");
  return absl::StartsWith(name, prefix) ? std::string(name) : absl::StrCat(prefix, name);
}

std::string ShortResourceName(absl::string_view name) {
  const size_t slash = name.find('/');
  return std::string(slash == absl::string_view::npos ? name : name.substr(slash + 1));
}

}  // namespace stretto::cli
