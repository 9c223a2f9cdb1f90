// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/labels.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/limits.h"
#include "proto/spec/job/rules.h"

namespace stretto::spec {
namespace {

// Whether `text` has at least one character, begins and ends with a letter or digit, and has
// nothing but these and `others`.
bool IsWord(absl::string_view text, absl::string_view others) {
  const auto alnum = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  return !text.empty() && alnum(text.front()) && alnum(text.back()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return alnum(c) || others.find(c) != others.npos; });
}

bool IsDomain(absl::string_view text) {
  if (static_cast<int64_t>(text.size()) > limits::kLabelPrefixBytes.value) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  return std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return IsWord(part, "-") && absl::AsciiStrToLower(part) == part;
  });
}

}  // namespace

bool IsLabelKey(absl::string_view key) {
  const size_t slash = key.find('/');
  const absl::string_view name = slash == key.npos ? key : key.substr(slash + 1);
  return !name.empty() && IsLabelValue(name) &&
         (slash == key.npos || IsDomain(key.substr(0, slash)));
}

bool IsLabelValue(absl::string_view value) {
  return value.empty() || (static_cast<int64_t>(value.size()) <= limits::kLabelNameBytes.value &&
                           IsWord(value, "-_."));
}

void CheckLabels(const v1alpha1::JobSpec& spec, Violations* violations) {
  if (!violations->Expect(spec.labels_size() <= limits::kJobLabels.value, "labels",
                          absl::StrCat(spec.labels_size(), " labels"),
                          absl::StrCat("at most ", limits::kJobLabels.value))) {
    return;
  }
  for (const auto& [key, value] : std::map(spec.labels().begin(), spec.labels().end())) {
    if (!violations->Expect(IsLabelKey(key), "labels", Quoted(key), kLabelKeyRule)) continue;
    violations->Expect(IsLabelValue(value), absl::StrCat("labels[", key, "]"), Quoted(value),
                       kLabelValueRule);
  }
}

}  // namespace stretto::spec
