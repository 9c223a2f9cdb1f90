// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fields of a message and of the messages in it, found by reflection, so that a field that is
// added is attacked as well.

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace stretto::integration {

// From the outermost message inwards; each but the last is a message.
using FieldPath = std::vector<const google::protobuf::FieldDescriptor*>;

// "job.spec.model.preset"
std::string TextOf(const FieldPath& path);
// The same of letters, digits and "_", for the name of a test.
std::string TestName(const FieldPath& path);

// Every field at any depth, each message type once on a path.
std::vector<FieldPath> FieldsOf(const google::protobuf::Descriptor& type);

// The message that holds the last field of the path; those on the way are created. Of a repeated
// one it is a new element.
google::protobuf::Message* HolderOf(google::protobuf::Message* root, const FieldPath& path);

// Sets a text, or adds one to a list.
void SetText(google::protobuf::Message* root, const FieldPath& path, const std::string& text);
// Sets a number, or adds one to a list: `number` as far as the type can have it, its extreme
// otherwise. Of an enum, a value that it may not have.
void SetNumber(google::protobuf::Message* root, const FieldPath& path, double number);

}  // namespace stretto::integration
