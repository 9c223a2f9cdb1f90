// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts one YAML scalar to one field, with the text of what was found and expected.

#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "google/protobuf/message.h"

namespace stretto::cli {

// Sets `field` of `message` from `node`, or appends to it if repeated. Returns an empty string or
// the fault: "found 3.5, expected an integer". The field must not be a message.
std::string SetScalar(const YamlNode& node, const google::protobuf::FieldDescriptor& field,
                      google::protobuf::Message* message);

// "a mapping", "a list", "nothing", "3.5", "\"yes\"".
std::string Describe(const YamlNode& node);

// "an integer", "a list of integers", "a mapping".
std::string Expected(const google::protobuf::FieldDescriptor& field);

}  // namespace stretto::cli
