// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages as text for people (YAML) and programs (JSON). Both use the proto's own field names.

#include <string>

#include "google/protobuf/message.h"

namespace stretto::cli {

// Fields that are set, in the proto's order; enums by their short name, times as RFC 3339,
// durations as "1.5s". ParseJobFile reads a printed JobSpec back.
std::string ToYaml(const google::protobuf::Message& message);

// Canonical proto3 JSON with snake_case names and every field present, so that scripts need no
// defaults. 64-bit integers are strings, as that form wants. `pretty` adds line breaks.
std::string ToJson(const google::protobuf::Message& message, bool pretty);

}  // namespace stretto::cli
