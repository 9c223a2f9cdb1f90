// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages as text for people (YAML) and programs (JSON). Both use the proto's own field names.

#include <string>

#include "google/protobuf/message.h"

namespace stretto::cli {

// Writes the fields that are set, in the proto's order: enums by their short name, times as RFC
// 3339, durations as "1.5s". ParseJobFile reads a printed JobSpec back.
std::string ToYaml(const google::protobuf::Message& message);

// Writes canonical proto3 JSON with snake_case names and every field, so that scripts need no
// defaults. As that form requires, 64-bit integers are strings. `pretty` adds line breaks.
std::string ToJson(const google::protobuf::Message& message, bool pretty);

}  // namespace stretto::cli
