// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is wrong with a spec, collected field by field.

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

// `text` in quotes, control characters escaped, shortened to 80 characters: user input in messages.
std::string Quoted(absl::string_view text);

// "field: description" of the first violation, and how many more there are. Needs one.
std::string MessageOf(const std::vector<FieldViolation>& violations);

// Paths are those of JobFields(), with an index behind a repeated section: "data.blend[0].weight".
class Violations {
 public:
  // Each returns whether its check passed.
  bool Require(bool ok, absl::string_view path, absl::string_view description);
  template <class T>
  bool Expect(bool ok, absl::string_view path, const T& found, absl::string_view expected) {
    return ok || Require(false, path, absl::StrCat("found ", found, ", expected ", expected));
  }

  void Add(const std::optional<FieldViolation>& violation);

  // Whether nothing has been found wrong with these fields, with what is in them and with the
  // sections that they are in: then rules that connect them make sense.
  bool Sound(const std::vector<absl::string_view>& paths) const;
  // Nothing in this section is sound, though it has no violation of its own.
  void Distrust(absl::string_view section) { faulty_.emplace_back(section); }

  const std::vector<FieldViolation>& list() const { return list_; }

 private:
  std::vector<FieldViolation> list_;
  std::vector<std::string> faulty_;
};

}  // namespace stretto::spec
