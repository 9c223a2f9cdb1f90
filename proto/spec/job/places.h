// SPDX-License-Identifier: Apache-2.0
#pragma once
// The places of a table's field in a message: none where a section before it is absent, one per
// element where a section or the field is repeated.

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

  bool given() const;  // has a value of its own: present, or not the default of its type
  bool is_number() const;
  bool is_section() const;
  double number() const;     // of a number
  int enum_value() const;    // its number
  std::string text() const;  // of any value, for messages and hashes
};

// `path` must be that of a field of `message`. For a repeated field that is empty there is no place.
std::vector<Place> PlacesOf(const google::protobuf::Message& message, absl::string_view path);

// The same field in a message to change; sections on the way are made if `make`, else null where one
// is absent. Not for fields of repeated sections.
google::protobuf::Message* ParentOf(google::protobuf::Message* message, absl::string_view path,
                                    bool make);

// The field's descriptor: its last part.
const google::protobuf::FieldDescriptor* DescriptorOf(const google::protobuf::Descriptor& type,
                                                      absl::string_view path);

// Sets a field to what a job file says: "5", "1e-3", "true", "bf16" (of PRECISION_BF16). The text
// must be a value of the field's type.
void SetFromText(google::protobuf::Message* parent, const google::protobuf::FieldDescriptor& field,
                 const std::string& text);

}  // namespace stretto::spec
