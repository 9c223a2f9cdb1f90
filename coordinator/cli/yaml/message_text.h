// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages as documents, which YAML and JSON show alike (proto/document). Both use the proto's own
// names.

#include <string>

#include "google/protobuf/message.h"
#include "proto/document/document.h"

namespace stretto::cli {

// Whether fields without presence are shown when they are zero, false or empty.
enum class Zeros {
  kShown,    // in answers: a reader needs no defaults
  kOmitted,  // in what people write: a field that is not there was not given
};

// Returns the fields in the order in which the proto declares them: enums by their short lower-case
// name, 64-bit integers as numbers, times as RFC 3339, durations as "1.500s". An enum without a
// value and whatever else has presence is there only if it is set. A job's spec is what people
// write wherever it stands, except that zero is shown where it is the default that applies, or
// where the field must be given and zero is a value.
// ParseJobFile reads a JobSpec back.
Document ToDocument(const google::protobuf::Message& message, Zeros zeros = Zeros::kShown);

// YamlText and JsonText of the document.
std::string ToYaml(const google::protobuf::Message& message, Zeros zeros = Zeros::kShown);
std::string ToJson(const google::protobuf::Message& message, bool pretty);

}  // namespace stretto::cli
