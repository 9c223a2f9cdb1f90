// SPDX-License-Identifier: Apache-2.0
#pragma once
// The faults of a spec, collected field by field.

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace stretto::spec {

struct FieldViolation {
  std::string field;        // path from a request: "spec.parallelism.tp_size"
  std::string description;  // "found 3, expected a divisor of heads 4"
};

// Returns user input in a form for messages: in quotes, with control characters escaped, shortened
// to 80 characters.
std::string Quoted(absl::string_view text);

// Returns "field: description" of the first violation and the number of others. Needs at least one.
std::string MessageOf(const std::vector<FieldViolation>& violations);

// Paths are those of JobFields(), with an index after a repeated section: "data.blend[0].weight".
class Violations {
 public:
  // Each returns whether its check passed.
  bool Require(bool ok, absl::string_view path, absl::string_view description);
  template <class T>
  bool Expect(bool ok, absl::string_view path, const T& found, absl::string_view expected) {
    return ok || Require(false, path, absl::StrCat("found ", found, ", expected ", expected));
  }

  void Add(const std::optional<FieldViolation>& violation);

  // Returns whether these fields, their contents and their enclosing sections have no violation, so
  // that rules that connect them are meaningful.
  bool Sound(const std::vector<absl::string_view>& paths) const;
  // Makes nothing in this section sound, although it has no violation of its own.
  void Distrust(absl::string_view section) { faulty_.emplace_back(section); }

  const std::vector<FieldViolation>& list() const { return list_; }

 private:
  std::vector<FieldViolation> list_;
  std::vector<std::string> faulty_;
};

}  // namespace stretto::spec
