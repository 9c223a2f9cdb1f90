// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/violations.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "proto/base/printable.h"

namespace stretto::spec {
namespace {

// Returns whether `path` is `section` or a field of it.
bool Within(absl::string_view path, absl::string_view section) {
  if (!absl::StartsWith(path, section)) return false;
  const absl::string_view rest = path.substr(section.size());
  return rest.empty() || rest[0] == '.' || rest[0] == '[';
}

}  // namespace

std::string Quoted(absl::string_view text) {
  constexpr size_t kLimit = 80;
  const bool cut = text.size() > kLimit;
  return absl::StrCat("\"", Escaped(absl::Utf8SafeCHexEscape(Prefix(text, kLimit))),
                      cut ? "..." : "", "\"");
}

std::string MessageOf(const std::vector<FieldViolation>& violations) {
  std::string message = absl::StrCat(violations.front().field, ": ", violations[0].description);
  if (violations.size() > 1) {
    absl::StrAppend(&message, " (and ", violations.size() - 1, " more)");
  }
  return message;
}

bool Violations::Require(bool ok, absl::string_view path, absl::string_view description) {
  if (ok) return true;
  list_.push_back({absl::StrCat("spec.", path), std::string(description)});
  faulty_.emplace_back(path);
  return false;
}

void Violations::Add(const std::optional<FieldViolation>& violation) {
  if (!violation) return;
  list_.push_back(*violation);
  faulty_.emplace_back(absl::StripPrefix(violation->field, "spec."));
}

bool Violations::Sound(const std::vector<absl::string_view>& paths) const {
  return std::none_of(paths.begin(), paths.end(), [&](absl::string_view path) {
    return std::any_of(faulty_.begin(), faulty_.end(), [&](const std::string& faulty) {
      return Within(path, faulty) || Within(faulty, path);
    });
  });
}

}  // namespace stretto::spec
