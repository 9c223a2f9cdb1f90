// SPDX-License-Identifier: Apache-2.0
#pragma once
// JSON from files we do not trust: syntax errors and duplicate keys come back as a Status, and the
// fields of an object are read by name, each exactly once, with none left over.

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

// Reads the fields of one object. The first error stays and later reads return zero values, so a
// parser reads all fields and asks once, by Finish, which also refuses fields that nobody read.
// `where` names file and object in errors: "/a/manifest.json: tensor 3".
class StrictObject {
 public:
  // Borrows `object`.
  StrictObject(const nlohmann::json& object, std::string where);

  // Whether it is there to be read: for the few fields that need not be.
  bool Has(const char* field) const;
  std::string Text(const char* field);
  int64_t Count(const char* field);  // 0 <= value < 2^63
  uint64_t Unsigned(const char* field);
  std::vector<int64_t> Counts(const char* field);
  double Number(const char* field);
  bool Flag(const char* field);
  const nlohmann::json& Array(const char* field);   // an empty array on error
  const nlohmann::json& Object(const char* field);  // an empty object on error

  // Makes `status` the error if there is none yet.
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
