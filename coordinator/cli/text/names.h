#pragma once
// Names as people type and read them.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace stretto::cli {

// PRECISION_BF16 of enum Precision -> "bf16"; SUCCEEDED of enum State -> "succeeded".
std::string ShortName(const google::protobuf::EnumValueDescriptor& value);

// The same of a value of a generated enum; its number when this build does not know it.
template <class Enum>
std::string ShortName(Enum value) {
  const auto* known = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return known == nullptr ? std::to_string(static_cast<int>(value)) : ShortName(*known);
}

// The values a person may give: short names in declaration order, without the unspecified zero.
std::vector<std::string> AcceptedNames(const google::protobuf::EnumDescriptor& type);

// The candidate that `word` most likely means, or empty when none is near.
std::string NearestName(absl::string_view word, const std::vector<std::string>& candidates);

// "jobs/x" and "x" -> "jobs/x".
std::string ResourceName(absl::string_view collection, absl::string_view name);
// "jobs/x" -> "x".
std::string ShortResourceName(absl::string_view name);

}  // namespace stretto::cli
