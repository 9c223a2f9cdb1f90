// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON from files that we do not trust: syntax errors and duplicate keys are returned as a Status,
// and the fields of an object are read by name, each exactly once, with none left over.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

// Errors: InvalidArgument "WHAT: ...".
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text, const std::string& what);

// Reads the fields of one object. It keeps the first error, and later reads return zero values, so
// a parser reads all fields and asks once at the end, by Finish, which also refuses fields that
// were not read. `where` names file and object in errors: "/a/manifest.json: tensor 3".
class StrictObject {
 public:
  // Borrows `object`.
  StrictObject(const nlohmann::json& object, std::string where);

  // Whether the field is present, for the few that are optional.
  bool Has(const char* field) const;
  std::string Text(const char* field);
  int64_t Count(const char* field);  // 0 <= value < 2^63
  uint64_t Unsigned(const char* field);
  std::vector<int64_t> Counts(const char* field);
  double Number(const char* field);
  bool Flag(const char* field);
  const nlohmann::json& Array(const char* field);   // an empty array on error
  const nlohmann::json& Object(const char* field);  // an empty object on error

  // Makes this the error if there is none yet.
  void Fail(absl::string_view field, absl::string_view found, absl::string_view expected);
  // The first error so far.
  const absl::Status& status() const { return status_; }
  absl::Status Finish();

 private:
  const nlohmann::json* Take(const char* field, absl::string_view expected);

  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> taken_;
  absl::Status status_;
};

}  // namespace stretto
