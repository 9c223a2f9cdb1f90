// SPDX-License-Identifier: Apache-2.0

// Walks the descriptors of the public API along a path and collects the type, default, values and
// comment of each field. For an unknown word it suggests the nearest names.

#include "coordinator/cli/explain/explain.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/explain/api.h"
#include "coordinator/cli/text/enum_names.h"
#include "proto/base/check.h"
#include "proto/base/nearest_name.h"
#include "proto/spec/fields.h"

namespace stretto::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr char kTime[] = "google.protobuf.Timestamp";
constexpr char kDuration[] = "google.protobuf.Duration";

bool WrittenAsOneValue(const Descriptor& type) {
  return type.full_name() == kTime || type.full_name() == kDuration;
}

std::string TypeName(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "integer";
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "boolean";
    case FieldDescriptor::CPPTYPE_ENUM:
      return field.enum_type()->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return field.type() == FieldDescriptor::TYPE_BYTES ? "bytes" : "string";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (field.is_map()) return "mapping of strings";  // the API has no other
      if (field.message_type()->full_name() == kTime) return "time";
      if (field.message_type()->full_name() == kDuration) return "duration";
      return field.message_type()->name();
  }
  STRETTO_CHECK(false);
}

// Converts a row of the table of spec fields to a comment.
Comment CommentOfRow(const Field& row) {
  Comment comment = ParseComment(row.help);
  const std::string required = row.required;
  comment.required = required == "always";
  if (!required.empty() && !comment.required) {
    absl::StrAppend(&comment.blocks.back().text, " Required ", required, ".");
  }
  comment.default_value = row.value[0] != '\0' ? row.value : row.derived;
  if (row.range.bounded()) {
    comment.range = absl::StrCat(row.range.Text(), row.unit[0] == '\0' ? "" : " ", row.unit);
  }
  comment.only_for = TextOf(row.taker);
  return comment;
}

const Field* RowOf(absl::string_view path) {
  return absl::ConsumePrefix(&path, "job.spec.") ? FindField(path) : nullptr;
}

FieldDoc DocOf(const FieldDescriptor& field, const std::string& path) {
  FieldDoc doc;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_map() &&
      !WrittenAsOneValue(*field.message_type())) {
    doc = ExplainMessage(*field.message_type(), path);
    doc.about = doc.comment;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const auto& type = *field.enum_type();
    doc.about = CommentOf(type);
    for (int i = 0; i < type.value_count(); ++i) {
      if (type.value(i)->number() == 0) continue;
      doc.values.push_back({ShortName(*type.value(i)), CommentOf(*type.value(i)).Line()});
    }
  }
  doc.path = path;
  doc.type = absl::StrCat(field.is_repeated() && !field.is_map() ? "[]" : "", TypeName(field));
  const Field* row = RowOf(path);
  if (row != nullptr && row->values != nullptr) doc.values = row->values();
  doc.comment = row != nullptr ? CommentOfRow(*row) : CommentOf(field);
  return doc;
}

const Descriptor& MessageCalled(const char* name) {
  const Descriptor* type = ApiFile().FindMessageTypeByName(name);
  STRETTO_CHECK(type != nullptr);
  return *type;
}

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

absl::Status Unknown(const std::string& word, const std::string& where,
                     const std::vector<std::string>& names) {
  const std::string near = NearestName(word, names);
  return absl::InvalidArgumentError(
      absl::StrCat(where.empty() ? "" : absl::StrCat(where, " has "), "no field \"", word, "\"; ",
                   near.empty() ? "" : absl::StrCat("did you mean \"", near, "\"? "),
                   "It is one of: ", absl::StrJoin(names, ", ")));
}

// "schedule.name" -> job, spec, schedule, name. An unknown first word is kept.
std::vector<std::string> FullPath(absl::string_view path) {
  std::vector<std::string> words;
  for (absl::string_view word : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    words.emplace_back(word.substr(0, word.find('[')));
  }
  if (words.empty() || words[0] == "job" || words[0] == "worker") return words;
  const bool in_spec = MessageCalled("JobSpec").FindFieldByName(words[0]) != nullptr;
  if (in_spec) words.insert(words.begin(), "spec");
  if (in_spec || words[0] == "spec" || words[0] == "name") words.insert(words.begin(), "job");
  return words;
}

}  // namespace

std::string FieldDoc::name() const { return path.substr(path.rfind('.') + 1); }

FieldDoc ExplainMessage(const Descriptor& type, const std::string& path) {
  FieldDoc doc;
  doc.path = path;
  doc.type = type.name();
  doc.comment = CommentOf(type);
  for (int i = 0; i < type.field_count(); ++i) {
    doc.fields.push_back(DocOf(*type.field(i), absl::StrCat(path, ".", type.field(i)->name())));
  }
  return doc;
}

absl::StatusOr<FieldDoc> ExplainField(absl::string_view path) {
  const std::vector<std::string> words = FullPath(path);
  const std::string root = words.empty() ? "" : words[0];
  if (root != "job" && root != "worker") {
    std::vector<std::string> names = FieldNames(MessageCalled("JobSpec"));
    names.insert(names.begin(), {"job", "worker", "spec", "name"});
    return Unknown(root, "", names);
  }
  const Descriptor* type = &MessageCalled(root == "job" ? "Job" : "Worker");
  const FieldDescriptor* field = nullptr;
  std::string where = root;
  for (size_t i = 1; i < words.size(); ++i) {
    if (type == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " is of type ", TypeName(*field), " and has no fields"));
    }
    field = type->FindFieldByName(words[i]);
    if (field == nullptr) return Unknown(words[i], where, FieldNames(*type));
    absl::StrAppend(&where, ".", words[i]);
    type = field->is_map() ? nullptr : field->message_type();
    if (type != nullptr && WrittenAsOneValue(*type)) type = nullptr;
  }
  return field == nullptr ? ExplainMessage(*type, root) : DocOf(*field, where);
}

}  // namespace stretto::cli
