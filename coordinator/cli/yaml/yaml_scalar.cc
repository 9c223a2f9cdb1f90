// SPDX-License-Identifier: Apache-2.0

// Parses a scalar by the type of its field, with our own rules where YAML's are surprising: no
// leading zeros, no infinity, and no string that looks like a number unless it is quoted. An error
// has what was found and what was expected.

#include "coordinator/cli/yaml/yaml_scalar.h"

#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text/enum_names.h"
#include "proto/base/check.h"
#include "proto/base/nearest_name.h"
#include "proto/document/plain_scalar.h"

namespace stretto::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

size_t CountDigits(absl::string_view text) {
  size_t count = 0;
  while (count < text.size() && absl::ascii_isdigit(text[count])) ++count;
  return count;
}

void SkipSign(absl::string_view* text) {
  if (!text->empty() && (text->front() == '-' || text->front() == '+')) text->remove_prefix(1);
}

// A decimal without leading zeros, because YAML 1.1 and 1.2 disagree about 010.
bool IsInteger(absl::string_view text) {
  SkipSign(&text);
  const size_t digits = CountDigits(text);
  return digits > 0 && digits == text.size() && (digits == 1 || text.front() != '0');
}

bool IsNotFinite(absl::string_view text) {
  SkipSign(&text);
  const std::string lower = absl::AsciiStrToLower(text);
  return lower == ".nan" || lower == ".inf" || lower == "nan" || lower == "inf" ||
         lower == "infinity";
}

std::string Found(const YamlNode& node, absl::string_view expected) {
  return absl::StrCat("found ", Describe(node), ", expected ", expected);
}

template <class T>
std::optional<T> ParseInteger(const YamlNode& node, std::string* error) {
  if (node.quoted || !IsInteger(node.text)) {
    *error = Found(node, "an integer");
    return std::nullopt;
  }
  T value = 0;
  if (!absl::SimpleAtoi(node.text, &value)) {
    *error = Found(node, absl::StrCat("an integer from ", std::numeric_limits<T>::min(), " to ",
                                      std::numeric_limits<T>::max()));
    return std::nullopt;
  }
  return value;
}

std::optional<double> ParseNumber(const YamlNode& node, double limit, std::string* error) {
  if (!node.quoted && IsNotFinite(node.text)) {
    *error = Found(node, "a finite number");
    return std::nullopt;
  }
  double value = 0;
  if (node.quoted || !IsYamlNumber(node.text) || !absl::SimpleAtod(node.text, &value)) {
    *error = Found(node, "a number");
    return std::nullopt;
  }
  if (!std::isfinite(value) || std::abs(value) > limit) {
    *error = Found(node, absl::StrCat("a number of magnitude at most ", limit));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> ParseBool(const YamlNode& node, std::string* error) {
  if (!node.quoted && node.text == "true") return true;
  if (!node.quoted && node.text == "false") return false;
  *error = Found(node, "true or false");
  return std::nullopt;
}

std::optional<std::string> ParseString(const YamlNode& node, std::string* error) {
  if (node.quoted || !LooksLikeNonString(node.text)) return node.text;
  *error = Found(node, absl::StrCat("a string; quote it: \"", node.text, "\""));
  return std::nullopt;
}

const google::protobuf::EnumValueDescriptor* ParseEnum(const YamlNode& node,
                                                       const google::protobuf::EnumDescriptor& type,
                                                       std::string* error) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0 && ShortName(*type.value(i)) == node.text)
      return type.value(i);
  }
  const std::vector<std::string> accepted = AcceptedNames(type);
  *error = Found(node, absl::StrCat("one of: ", absl::StrJoin(accepted, ", ")));
  if (const std::string near = NearestName(node.text, accepted); !near.empty()) {
    absl::StrAppend(error, "; did you mean \"", near, "\"?");
  }
  return nullptr;
}

std::string TypeWord(const FieldDescriptor& field, bool plural) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return plural ? "integers" : "an integer";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return plural ? "numbers" : "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return plural ? "truth values" : "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of: ", absl::StrJoin(AcceptedNames(*field.enum_type()), ", "));
    case FieldDescriptor::CPPTYPE_STRING:
      return plural ? "strings" : "a string";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return plural ? "mappings" : "a mapping";
  }
  STRETTO_CHECK(false);
}

}  // namespace

// One line per type: the field's setter, or its adder when it is repeated.
#define STRETTO_STORE(Name, expression)              \
  do {                                               \
    const auto value = (expression);                 \
    if (!value) return error;                        \
    if (field.is_repeated()) {                       \
      reflection.Add##Name(message, &field, *value); \
    } else {                                         \
      reflection.Set##Name(message, &field, *value); \
    }                                                \
    return "";                                       \
  } while (false)

std::string SetScalar(const YamlNode& node, const FieldDescriptor& field, Message* message) {
  if (node.kind != YamlNode::Kind::kScalar) return Found(node, TypeWord(field, false));
  const Reflection& reflection = *message->GetReflection();
  std::string error;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      STRETTO_STORE(Int32, ParseInteger<int32_t>(node, &error));
    case FieldDescriptor::CPPTYPE_INT64:
      STRETTO_STORE(Int64, ParseInteger<int64_t>(node, &error));
    case FieldDescriptor::CPPTYPE_UINT32:
      STRETTO_STORE(UInt32, ParseInteger<uint32_t>(node, &error));
    case FieldDescriptor::CPPTYPE_UINT64:
      STRETTO_STORE(UInt64, ParseInteger<uint64_t>(node, &error));
    case FieldDescriptor::CPPTYPE_FLOAT:
      STRETTO_STORE(Float, ParseNumber(node, std::numeric_limits<float>::max(), &error));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      STRETTO_STORE(Double, ParseNumber(node, std::numeric_limits<double>::max(), &error));
    case FieldDescriptor::CPPTYPE_BOOL:
      STRETTO_STORE(Bool, ParseBool(node, &error));
    case FieldDescriptor::CPPTYPE_STRING:
      STRETTO_STORE(String, ParseString(node, &error));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const google::protobuf::EnumValueDescriptor* value =
          ParseEnum(node, *field.enum_type(), &error);
      if (value == nullptr) return error;
      if (field.is_repeated()) {
        reflection.AddEnum(message, &field, value);
      } else {
        reflection.SetEnum(message, &field, value);
      }
      return "";
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  STRETTO_CHECK(false);
}

#undef STRETTO_STORE

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMapping:
      return "a mapping";
    case YamlNode::Kind::kScalar:
      break;
  }
  const std::string text = node.text.size() > 60 ? node.text.substr(0, 57) + "..." : node.text;
  const bool bare = !node.quoted && (LooksLikeNonString(node.text) || IsNotFinite(node.text));
  return bare ? text : absl::StrCat("\"", text, "\"");
}

std::string Expected(const FieldDescriptor& field) {
  if (field.is_map()) return "a mapping";
  if (field.is_repeated()) return absl::StrCat("a list of ", TypeWord(field, true));
  return TypeWord(field, false);
}

}  // namespace stretto::cli
