// SPDX-License-Identifier: Apache-2.0
#pragma once
// Enum values as people type and read them.

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/generated_enum_reflection.h"

namespace stretto::cli {

// PRECISION_BF16 of enum Precision -> "bf16"; SUCCEEDED of enum State -> "succeeded".
std::string ShortName(const google::protobuf::EnumValueDescriptor& value);

// The same for a value of a generated enum; the number if this build does not know the value.
template <class Enum>
std::string ShortName(Enum value) {
  const auto* known = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return known == nullptr ? std::to_string(static_cast<int>(value)) : ShortName(*known);
}

// The values that a person may give: short names in declaration order, without the unspecified
// zero.
std::vector<std::string> AcceptedNames(const google::protobuf::EnumDescriptor& type);

}  // namespace stretto::cli
