// SPDX-License-Identifier: Apache-2.0

// Walks a message by reflection. Messages that people write as one value (times, durations) are one
// value; text of several lines is a literal block, other text is quoted only where YAML
// would read it as something else.

#include "coordinator/cli/yaml/message_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/text/enum_names.h"
#include "coordinator/cli/yaml/yaml_scalar.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"

namespace stretto::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Number(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

// Prints text plainly if that is unambiguous, else in double quotes.
std::string Text(const std::string& text) {
  bool plain = !text.empty() && !LooksLikeNonString(text) && text.back() != '/';
  for (const char c : text) {
    plain = plain && (absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/');
  }
  plain = plain && (absl::ascii_isalnum(text[0]) || text[0] == '/');
  if (plain) return text;
  // The escapes of printable.h are those of YAML.
  return absl::StrCat("\"", Escaped(absl::StrReplaceAll(text, {{"\"", "\\\""}, {"\\", "\\\\"}})),
                      "\"");
}

// Whether YAML reads the text back if each of its lines is indented: a literal block.
bool IsBlock(const std::string& text) {
  const bool lines = absl::StrContains(text, '\n') && text.back() == '\n' &&
                     absl::ascii_isgraph(text[0]) && text[text.size() - 2] != '\n';
  return lines && std::all_of(text.begin(), text.end(),
                              [](char c) { return c == '\n' || absl::ascii_isprint(c); });
}

std::string LiteralBlock(absl::string_view text, const std::string& indent) {
  std::string block = "|\n";
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(text, "\n"), '\n'))
    absl::StrAppend(&block, line.empty() ? "" : indent, line, "\n");
  return block;
}

// Value of a scalar field; `index` < 0 for a singular one.
std::string Scalar(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  const auto* f = &field;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(one ? r.GetInt32(message, f) : r.GetRepeatedInt32(message, f, index));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(one ? r.GetInt64(message, f) : r.GetRepeatedInt64(message, f, index));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(one ? r.GetUInt32(message, f) : r.GetRepeatedUInt32(message, f, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(one ? r.GetUInt64(message, f) : r.GetRepeatedUInt64(message, f, index));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Number(one ? r.GetFloat(message, f) : r.GetRepeatedFloat(message, f, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Number(one ? r.GetDouble(message, f) : r.GetRepeatedDouble(message, f, index));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (one ? r.GetBool(message, f) : r.GetRepeatedBool(message, f, index)) ? "true"
                                                                                  : "false";
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(one ? r.GetString(message, f) : r.GetRepeatedString(message, f, index));
    case FieldDescriptor::CPPTYPE_ENUM:
      return ShortName(*(one ? r.GetEnum(message, f) : r.GetRepeatedEnum(message, f, index)));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  STRETTO_CHECK(false);
}

// Returns true, and the text, for messages that are written as one value.
bool WellKnown(const Message& message, std::string* text) {
  using google::protobuf::util::TimeUtil;
  const std::string& type = message.GetDescriptor()->full_name();
  if (type == "google.protobuf.Timestamp") {
    google::protobuf::Timestamp time;
    time.CopyFrom(message);
    *text = absl::StrCat("\"", TimeUtil::ToString(time), "\"");
    return true;
  }
  if (type == "google.protobuf.Duration") {
    google::protobuf::Duration duration;
    duration.CopyFrom(message);
    *text = TimeUtil::ToString(duration);
    return true;
  }
  return false;
}

std::string Block(const Message& message, const std::string& indent);

// "- a: 1" with the other lines aligned under `a`.
std::string Item(const Message& message, const std::string& indent) {
  std::string text;
  if (WellKnown(message, &text)) return absl::StrCat(indent, "- ", text, "\n");
  text = Block(message, indent + "  ");
  if (text.empty()) return absl::StrCat(indent, "- {}\n");
  text[indent.size()] = '-';
  return text;
}

std::string List(const Message& message, const FieldDescriptor& field, const std::string& indent) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    std::string out = absl::StrCat(indent, field.name(), ":\n");
    for (int i = 0; i < size; ++i) {
      out += Item(reflection.GetRepeatedMessage(message, &field, i), indent);
    }
    return out;
  }
  std::string out = absl::StrCat(indent, field.name(), ": [");
  for (int i = 0; i < size; ++i)
    absl::StrAppend(&out, i == 0 ? "" : ", ", Scalar(message, field, i));
  return out + "]\n";
}

std::string Map(const Message& message, const FieldDescriptor& field, const std::string& indent) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  std::map<std::string, const Message*> entries;  // by key; the message has no order
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    entries[Scalar(entry, key, -1)] = &entry;
  }
  std::string out = absl::StrCat(indent, field.name(), ":\n");
  for (const auto& [name, entry] : entries) {
    absl::StrAppend(&out, indent, "  ", name, ":");
    if (value.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const std::string block =
          Block(entry->GetReflection()->GetMessage(*entry, &value), indent + "    ");
      absl::StrAppend(&out, block.empty() ? " {}\n" : "\n", block);
    } else {
      absl::StrAppend(&out, " ", Scalar(*entry, value, -1), "\n");
    }
  }
  return out;
}

std::string Block(const Message& message, const std::string& indent) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  std::string out;
  for (const FieldDescriptor* field : fields) {
    if (field->is_map()) {
      out += Map(message, *field, indent);
    } else if (field->is_repeated()) {
      out += List(message, *field, indent);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
               IsBlock(reflection.GetString(message, field))) {
      absl::StrAppend(&out, indent, field->name(), ": ",
                      LiteralBlock(reflection.GetString(message, field), indent + "  "));
    } else if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      absl::StrAppend(&out, indent, field->name(), ": ", Scalar(message, *field, -1), "\n");
    } else {
      const Message& nested = reflection.GetMessage(message, field);
      std::string text;
      if (WellKnown(nested, &text)) {
        absl::StrAppend(&out, indent, field->name(), ": ", text, "\n");
        continue;
      }
      text = Block(nested, indent + "  ");
      absl::StrAppend(&out, indent, field->name(), text.empty() ? ": {}\n" : ":\n", text);
    }
  }
  return out;
}

}  // namespace

std::string ToYaml(const Message& message) { return Block(message, ""); }

std::string ToJson(const Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return "{}\n";  // only for times outside RFC 3339, which we never store
  if (json.empty() || json.back() != '\n') json += '\n';
  // Protobuf escapes most of what is not printable. Outside strings that is new lines alone.
  return absl::StrJoin(absl::StrSplit(json, '\n'), "\n",
                       [](std::string* out, absl::string_view line) { *out += Escaped(line); });
}

}  // namespace stretto::cli
