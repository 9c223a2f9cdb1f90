// SPDX-License-Identifier: Apache-2.0
#pragma once
// One YAML scalar into one field: types, ranges and the words for what was found and expected.

#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "google/protobuf/message.h"

namespace stretto::cli {

// Sets `field` of `message`, or adds to it when repeated, from `node`. Returns empty, or what is
// wrong: "found 3.5, expected an integer". The field must not be a message.
std::string SetScalar(const YamlNode& node, const google::protobuf::FieldDescriptor& field,
                      google::protobuf::Message* message);

// True for what YAML 1.2 reads as a number, a truth value or null when it is not quoted.
bool LooksLikeNonString(absl::string_view text);

// "a mapping", "a list", "nothing", "3.5", "\"yes\"".
std::string Describe(const YamlNode& node);

// "an integer", "a list of integers", "a mapping".
std::string Expected(const google::protobuf::FieldDescriptor& field);

}  // namespace stretto::cli
