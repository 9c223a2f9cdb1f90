// SPDX-License-Identifier: Apache-2.0

// Walks messages along the paths of the table of fields, by reflection.
#include "proto/spec/job/places.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"

namespace stretto::spec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::pair<std::string, std::string> Split(absl::string_view path) {
  return absl::StrSplit(path, absl::MaxSplits('.', 1));
}

void Walk(const Message& message, absl::string_view path, const std::string& before,
          std::vector<Place>* places) {
  const auto [name, rest] = Split(path);
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  STRETTO_CHECK(field != nullptr);
  const Reflection& reflection = *message.GetReflection();
  const std::string here = absl::StrCat(before, before.empty() ? "" : ".", name);
  const bool section = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (field->is_repeated()) {
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      if (rest.empty()) {
        places->push_back({here, &message, field, i});
      } else {
        Walk(reflection.GetRepeatedMessage(message, field, i), rest,
             absl::StrCat(here, "[", i, "]"), places);
      }
    }
    return;
  }
  if (section && !reflection.HasField(message, field)) return;
  if (rest.empty()) {
    places->push_back({here, &message, field});
  } else {
    Walk(reflection.GetMessage(message, field), rest, here, places);
  }
}

}  // namespace

bool Place::given() const {
  return index >= 0 || parent->GetReflection()->HasField(*parent, field);
}

bool Place::is_section() const { return field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }

bool Place::is_number() const {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return true;
    default:  // any other type of Protobuf
      return false;
  }
}

double Place::number() const {
  const Reflection& get = *parent->GetReflection();
  if (index >= 0) return get.GetRepeatedInt32(*parent, field, index);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return get.GetInt32(*parent, field);
    case FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(get.GetInt64(*parent, field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(get.GetUInt64(*parent, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return get.GetDouble(*parent, field);
    default:  // a type of Protobuf that no field of a spec has
      STRETTO_CHECK(false);
  }
}

int Place::enum_value() const {
  const Reflection& get = *parent->GetReflection();
  return index >= 0 ? get.GetRepeatedEnumValue(*parent, field, index)
                    : get.GetEnumValue(*parent, field);
}

std::string Place::text() const {
  const Reflection& get = *parent->GetReflection();
  if (is_section()) return "one";
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    return absl::StrCat(get.GetUInt64(*parent, field));  // a double has fewer digits
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    return absl::StrCat(get.GetInt64(*parent, field));
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    const std::string shortest = absl::StrCat(number());
    double same = 0;
    return absl::SimpleAtod(shortest, &same) && same == number()
               ? shortest
               : absl::StrFormat("%.17g", number());
  }
  if (is_number()) return absl::StrCat(static_cast<int64_t>(number()));
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return get.GetBool(*parent, field) ? "true" : "false";
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const EnumValueDescriptor* value = field->enum_type()->FindValueByNumber(enum_value());
    return value == nullptr ? absl::StrCat(enum_value()) : value->name();
  }
  return index >= 0 ? get.GetRepeatedString(*parent, field, index) : get.GetString(*parent, field);
}

std::vector<Place> PlacesOf(const Message& message, absl::string_view path) {
  std::vector<Place> places;
  Walk(message, path, "", &places);
  return places;
}

Message* ParentOf(Message* message, absl::string_view path, bool make) {
  auto [name, rest] = Split(path);
  while (!rest.empty()) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
    STRETTO_CHECK(field != nullptr && !field->is_repeated());
    if (!make && !message->GetReflection()->HasField(*message, field)) return nullptr;
    message = message->GetReflection()->MutableMessage(message, field);
    std::tie(name, rest) = Split(rest);
  }
  return message;
}

const FieldDescriptor* DescriptorOf(const Descriptor& type, absl::string_view path) {
  const Descriptor* in = &type;
  const FieldDescriptor* field = nullptr;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    if (in == nullptr) return nullptr;
    field = in->FindFieldByName(std::string(part));
    if (field == nullptr) return nullptr;
    in = field->message_type();
  }
  return field;
}

void SetFromText(Message* parent, const FieldDescriptor& field, const std::string& text) {
  const Reflection& set = *parent->GetReflection();
  double number = 0;
  const bool is_number = absl::SimpleAtod(text, &number);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      STRETTO_CHECK(is_number);
      return set.SetInt32(parent, &field, static_cast<int32_t>(number));
    case FieldDescriptor::CPPTYPE_INT64:
      STRETTO_CHECK(is_number);
      return set.SetInt64(parent, &field, static_cast<int64_t>(number));
    case FieldDescriptor::CPPTYPE_UINT64:
      STRETTO_CHECK(is_number);
      return set.SetUInt64(parent, &field, static_cast<uint64_t>(number));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      STRETTO_CHECK(is_number);
      return set.SetDouble(parent, &field, number);
    case FieldDescriptor::CPPTYPE_BOOL:
      STRETTO_CHECK(text == "true" || text == "false");
      return set.SetBool(parent, &field, text == "true");
    case FieldDescriptor::CPPTYPE_STRING:
      return set.SetString(parent, &field, text);
    case FieldDescriptor::CPPTYPE_ENUM:
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        const EnumValueDescriptor* value = field.enum_type()->value(i);
        const std::string name = absl::AsciiStrToLower(value->name());
        if (name == text || absl::EndsWith(name, "_" + text)) {
          return set.SetEnum(parent, &field, value);
        }
      }
      STRETTO_CHECK(false);
    default:  // a type of Protobuf that no field of a spec has
      STRETTO_CHECK(false);
  }
}

}  // namespace stretto::spec
