// SPDX-License-Identifier: Apache-2.0

// Walks a message by reflection. Messages that people write as one value (times, durations) are one
// value. The rows of proto/spec say of which fields of a job's spec zero is a value.

#include "coordinator/cli/yaml/message_text.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/text/enum_names.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"
#include "proto/base/check.h"
#include "proto/spec/fields.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Where the walk is.
struct Spot {
  Zeros zeros;
  bool in_spec = false;
  std::string path = {};  // in the spec, as the rows have it

  Spot Below(const FieldDescriptor& field) const {
    Spot below = *this;
    if (in_spec) absl::StrAppend(&below.path, path.empty() ? "" : ".", field.name());
    return below;
  }
};

// The double with the fewest digits that is this float.
double Shortest(float value) {
  double shortest = value;
  static_cast<void>(absl::SimpleAtod(absl::StrCat(value), &shortest));
  return static_cast<float>(shortest) == value ? shortest : value;
}

// Value of a scalar field; `index` < 0 for a singular one.
Document ScalarValue(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  const auto* f = &field;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? r.GetInt32(message, f) : r.GetRepeatedInt32(message, f, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? r.GetInt64(message, f) : r.GetRepeatedInt64(message, f, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? r.GetUInt32(message, f) : r.GetRepeatedUInt32(message, f, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? r.GetUInt64(message, f) : r.GetRepeatedUInt64(message, f, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Shortest(one ? r.GetFloat(message, f) : r.GetRepeatedFloat(message, f, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? r.GetDouble(message, f) : r.GetRepeatedDouble(message, f, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? r.GetBool(message, f) : r.GetRepeatedBool(message, f, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? r.GetString(message, f) : r.GetRepeatedString(message, f, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortName(*(one ? r.GetEnum(message, f) : r.GetRepeatedEnum(message, f, index)));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  STRETTO_CHECK(false);
}

Document MessageValue(const Message& message, Spot spot);

Document Value(const Message& message, const FieldDescriptor& field, int index, const Spot& spot) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
    return ScalarValue(message, field, index);
  const Reflection& r = *message.GetReflection();
  return MessageValue(
      index < 0 ? r.GetMessage(message, &field) : r.GetRepeatedMessage(message, &field, index),
      spot);
}

Document ListValue(const Message& message, const FieldDescriptor& field, const Spot& spot) {
  Document list = Document::array();
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) list.push_back(Value(message, field, i, spot));
  return list;
}

Document MapValue(const Message& message, const FieldDescriptor& field, const Spot& spot) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  std::map<std::string, const Message*> entries;  // by key; the message has no order
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const Document name = ScalarValue(entry, key, -1);
    entries[name.is_string() ? name.get<std::string>() : name.dump()] = &entry;
  }
  Document map = Document::object();
  for (const auto& [name, entry] : entries) map[name] = Value(*entry, value, -1, spot);
  return map;
}

// Whether a field that has its type's zero is shown.
bool ShowsZero(const FieldDescriptor& field, const Spot& spot) {
  if (spot.zeros == Zeros::kOmitted && !spot.in_spec) return false;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && !field.is_repeated()) return false;
  if (!spot.in_spec) return true;
  const Field* row = FindField(spot.Below(field).path);
  if (row == nullptr || row->taker != Taker::kAll) return false;
  const absl::string_view value = row->value;
  const bool given = row->required == absl::string_view("always") && row->range.Contains(0);
  return value == "0" || value == "false" || given;
}

bool IsEmpty(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) == 0
                             : !reflection.HasField(message, &field);
}

Document MessageValue(const Message& message, Spot spot) {
  using google::protobuf::util::TimeUtil;
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  if (type.full_name() == "google.protobuf.Timestamp") {
    google::protobuf::Timestamp time;
    time.CopyFrom(message);
    return TimeUtil::ToString(time);
  }
  if (type.full_name() == "google.protobuf.Duration") {
    google::protobuf::Duration duration;
    duration.CopyFrom(message);
    return TimeUtil::ToString(duration);
  }
  if (type.full_name() == v1alpha1::JobSpec::descriptor()->full_name()) {
    spot.in_spec = true;
    spot.path.clear();
  }
  Document fields = Document::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsEmpty(message, field) && (field.has_presence() || !ShowsZero(field, spot))) continue;
    const Spot below = spot.Below(field);
    fields[field.name()] = field.is_map()        ? MapValue(message, field, below)
                           : field.is_repeated() ? ListValue(message, field, below)
                                                 : Value(message, field, -1, below);
  }
  return fields;
}

}  // namespace

Document ToDocument(const Message& message, Zeros zeros) {
  return MessageValue(message, {.zeros = zeros});
}

std::string ToYaml(const Message& message, Zeros zeros) {
  return YamlText(ToDocument(message, zeros));
}

std::string ToJson(const Message& message, bool pretty) {
  return JsonText(ToDocument(message), pretty);
}

}  // namespace stretto::cli
