// SPDX-License-Identifier: Apache-2.0
#pragma once
// The places of a table's field in a message: none if an enclosing section is absent, one per
// element if a section or the field is repeated.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace stretto::spec {

struct Place {
  std::string path;  // with indices of repeated sections
  const google::protobuf::Message* parent;
  const google::protobuf::FieldDescriptor* field;
  int index = -1;  // of an element of a repeated field

  bool given() const;  // has its own value: present, or not its type's default
  bool is_number() const;
  bool is_section() const;
  double number() const;     // of a number
  int enum_value() const;    // its number
  std::string text() const;  // of any value, for messages and hashes
};

// `path` must be that of a field of `message`. An empty repeated field has no place.
std::vector<Place> PlacesOf(const google::protobuf::Message& message, absl::string_view path);

// Finds the same field in a message that is to be changed. Creates enclosing sections if `make`;
// otherwise returns null if one is absent. Not for fields of repeated sections.
google::protobuf::Message* ParentOf(google::protobuf::Message* message, absl::string_view path,
                                    bool make);

// Returns the descriptor of the last part of the path.
const google::protobuf::FieldDescriptor* DescriptorOf(const google::protobuf::Descriptor& type,
                                                      absl::string_view path);

// Sets a field from the text of a job file: "5", "1e-3", "true", "bf16" (for PRECISION_BF16). The
// text must be a valid value of the field's type.
void SetFromText(google::protobuf::Message* parent, const google::protobuf::FieldDescriptor& field,
                 const std::string& text);

}  // namespace stretto::spec
