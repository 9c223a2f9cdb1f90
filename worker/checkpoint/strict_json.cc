// SPDX-License-Identifier: Apache-2.0

// Parsing uses the library's callback, which sees every key and so finds duplicates and excessive
// depth. StrictObject keeps the first error and the fields read; Finish reports that error, or a
// field that was not read.

#include "worker/checkpoint/strict_json.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = limits::kJsonDepth.value;

bool IsCount(const json& value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
}

std::string Describe(const json& value) {
  return value.is_number() ? value.dump() : value.type_name();
}

}  // namespace

absl::StatusOr<json> ParseStrictJson(absl::string_view text, const std::string& what) {
  std::vector<std::set<std::string>> keys(1);  // of the open object at each depth
  std::string duplicate;
  bool too_deep = false;
  auto watch = [&](int depth, json::parse_event_t event, json& value) {
    const size_t level = depth;
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      too_deep = too_deep || depth >= kMaxDepth;
      if (too_deep) return false;  // drops the subtree
      keys.resize(level + 2);
      keys[level + 1].clear();
    } else if (event == json::parse_event_t::key && level < keys.size()) {
      std::string key = value.get<std::string>();
      if (!keys[level].insert(key).second && duplicate.empty()) duplicate = std::move(key);
    }
    return true;
  };
  json document = json::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": found JSON nested deeper than ", kMaxDepth, " levels"));
  }
  if (document.is_discarded()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": found ", text.size(), " bytes that are not JSON, expected JSON"));
  }
  if (!duplicate.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": found field '", duplicate, "' twice, expected it once"));
  }
  return document;
}

StrictObject::StrictObject(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) Fail("value", object.type_name(), "an object");
}

void StrictObject::Fail(absl::string_view field, absl::string_view found,
                        absl::string_view expected) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(where_, ": ", field, ": found ", found, ", expected ", expected));
}

const json* StrictObject::Take(const char* field, absl::string_view expected) {
  if (!status_.ok()) return nullptr;
  taken_.insert(field);
  const auto found = object_.find(field);
  if (found == object_.end()) {
    Fail(field, "nothing", expected);
    return nullptr;
  }
  return &*found;
}

bool StrictObject::Has(const char* field) const { return object_.contains(field); }

std::string StrictObject::Text(const char* field) {
  const json* value = Take(field, "text");
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  Fail(field, value->type_name(), "text");
  return "";
}

uint64_t StrictObject::Unsigned(const char* field) {
  const json* value = Take(field, "a number in [0, 2^64)");
  if (value == nullptr) return 0;
  if (value->is_number_unsigned()) return value->get<uint64_t>();
  Fail(field, Describe(*value), "a number in [0, 2^64)");
  return 0;
}

int64_t StrictObject::Count(const char* field) {
  const json* value = Take(field, "a number in [0, 2^63)");
  if (value == nullptr) return 0;
  if (IsCount(*value)) return value->get<int64_t>();
  Fail(field, Describe(*value), "a number in [0, 2^63)");
  return 0;
}

std::vector<int64_t> StrictObject::Counts(const char* field) {
  std::vector<int64_t> counts;
  for (const json& value : Array(field)) {
    if (!IsCount(value)) {
      Fail(field, Describe(value), "numbers in [0, 2^63)");
      return {};
    }
    counts.push_back(value.get<int64_t>());
  }
  return counts;
}

double StrictObject::Number(const char* field) {
  const json* value = Take(field, "a number");
  if (value == nullptr) return 0;
  if (value->is_number()) return value->get<double>();
  Fail(field, Describe(*value), "a number");
  return 0;
}

bool StrictObject::Flag(const char* field) {
  const json* value = Take(field, "true or false");
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  Fail(field, Describe(*value), "true or false");
  return false;
}

const json& StrictObject::Array(const char* field) {
  static const json empty = json::array();
  const json* value = Take(field, "an array");
  if (value == nullptr) return empty;
  if (value->is_array()) return *value;
  Fail(field, value->type_name(), "an array");
  return empty;
}

const json& StrictObject::Object(const char* field) {
  static const json empty = json::object();
  const json* value = Take(field, "an object");
  if (value == nullptr) return empty;
  if (value->is_object()) return *value;
  Fail(field, value->type_name(), "an object");
  return empty;
}

absl::Status StrictObject::Finish() {
  if (!status_.ok()) return status_;
  for (const auto& item : object_.items()) {
    if (taken_.count(item.key()) == 0) {
      Fail("field", absl::StrCat("'", item.key(), "'"), "no such field");
    }
  }
  return status_;
}

}  // namespace stretto
