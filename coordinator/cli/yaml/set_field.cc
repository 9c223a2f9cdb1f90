// SPDX-License-Identifier: Apache-2.0

// An assignment becomes a document with that one field, which is read like a job file into the same
// spec. So the types, the checks and the words of errors are those of job files.

#include "coordinator/cli/yaml/set_field.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "google/protobuf/descriptor.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kFlag[] = "--set";
constexpr SourcePosition kNowhere = {.line = 0, .column = 0};

// Where an assignment leads. `fields` ends early at a name that does not exist, which the reader of
// the document then reports.
struct Target {
  std::vector<std::string> words;  // of the path; the key of a map is one word
  std::vector<const FieldDescriptor*> fields;

  bool found() const {
    return !fields.empty() && words.size() == fields.size() + (fields.back()->is_map() ? 1 : 0);
  }
  // As violations name it: "labels[team]".
  std::string name() const {
    if (!found() || !fields.back()->is_map()) return absl::StrJoin(words, ".");
    return absl::StrCat(absl::StrJoin(words.begin(), words.end() - 1, "."), "[", words.back(), "]");
  }
  bool is_string() const {
    if (!found()) return false;
    const FieldDescriptor& field = *fields.back();
    const FieldDescriptor& value = field.is_map() ? *field.message_type()->map_value() : field;
    return value.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !value.is_repeated();
  }
};

Target Resolve(const std::string& path) {
  Target target;
  std::string rest = path;
  const Descriptor* type = v1alpha1::JobSpec::descriptor();
  while (true) {
    std::pair<std::string, std::string> parts = absl::StrSplit(rest, absl::MaxSplits('.', 1));
    const bool last = rest.size() == parts.first.size();
    target.words.push_back(parts.first);
    rest = std::move(parts.second);
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(parts.first);
    if (field != nullptr) target.fields.push_back(field);
    if (last) return target;
    if (field != nullptr && field->is_map()) {
      target.words.push_back(rest);
      return target;
    }
    type = field == nullptr ? nullptr : field->message_type();
  }
}

// The nodes of a value have no position in a file.
void Unplace(YamlNode* node) {
  node->position = kNowhere;
  for (YamlNode& key : node->keys) Unplace(&key);
  for (YamlNode& value : node->values) Unplace(&value);
}

YamlNode Scalar(const std::string& text) {
  return {.kind = YamlNode::Kind::kScalar, .position = kNowhere, .text = text, .quoted = true};
}

absl::StatusOr<YamlNode> NodeOf(const Target& target, const std::string& text) {
  if (target.is_string()) return Scalar(text);
  YamlNode nothing{.position = kNowhere};
  if (text.empty()) return nothing;
  ASSIGN_OR_RETURN(YamlNode value, ParseYaml(text, absl::StrCat(kFlag, " ", target.words.back())));
  Unplace(&value);
  return value;
}

void RemoveEntry(const std::string& key, const FieldDescriptor& map, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const FieldDescriptor& of_entry = *map.message_type()->map_key();
  for (int i = reflection.FieldSize(*message, &map) - 1; i >= 0; --i) {
    const Message& entry = reflection.GetRepeatedMessage(*message, &map, i);
    if (entry.GetReflection()->GetString(entry, &of_entry) != key) continue;
    reflection.SwapElements(message, &map, i, reflection.FieldSize(*message, &map) - 1);
    reflection.RemoveLast(message, &map);
  }
}

void Remove(const Target& target, Message* message) {
  for (size_t i = 0; i + 1 < target.fields.size(); ++i) {
    const FieldDescriptor* section = target.fields[i];
    if (!message->GetReflection()->HasField(*message, section)) return;
    message = message->GetReflection()->MutableMessage(message, section);
  }
  const FieldDescriptor& field = *target.fields.back();
  if (target.words.size() > target.fields.size()) {
    RemoveEntry(target.words.back(), field, message);
  } else {
    message->GetReflection()->ClearField(message, &field);
  }
}

// Whether a list is on the way, whose elements have no path.
const FieldDescriptor* ListWithin(const Target& target) {
  for (size_t i = 0; i < target.fields.size() && i + 1 < target.words.size(); ++i) {
    if (target.fields[i]->is_repeated() && !target.fields[i]->is_map()) return target.fields[i];
  }
  return nullptr;
}

absl::Status SetField(const std::string& assignment, JobFile* job) {
  const std::vector<std::string> parts = absl::StrSplit(assignment, absl::MaxSplits('=', 1));
  if (parts.size() < 2 || parts[0].empty()) {
    return ErrorAt(
        kFlag, kNowhere,
        absl::StrCat("found \"", assignment, "\", expected PATH=VALUE, as in steps=100"));
  }
  const Target target = Resolve(parts[0]);
  job->set.insert(target.name());
  if (target.found() && parts[1] == "null") {
    Remove(target, &job->spec);
    return absl::OkStatus();
  }
  if (const FieldDescriptor* list = ListWithin(target); list != nullptr) {
    return ErrorAt(
        kFlag, kNowhere,
        absl::StrCat(parts[0], ": found a path into a list, expected the whole list, as ", "in ",
                     list->name(), "=[...]"));
  }
  ASSIGN_OR_RETURN(YamlNode node, NodeOf(target, parts[1]));
  for (auto word = target.words.rbegin(); word != target.words.rend(); ++word) {
    YamlNode section{.kind = YamlNode::Kind::kMapping, .position = kNowhere};
    section.keys.push_back(Scalar(*word));
    section.values.push_back(std::move(node));
    node = std::move(section);
  }
  return FillJob(std::move(node), kFlag, job);
}

void AddPaths(const Descriptor& type, const std::string& before, std::vector<std::string>* paths) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string path = absl::StrCat(before, field.name());
    if (field.message_type() != nullptr && !field.is_repeated()) {
      AddPaths(*field.message_type(), path + ".", paths);
    } else {
      paths->push_back(field.is_map() ? path + "." : path);
    }
  }
}

}  // namespace

std::vector<std::string> SettableFields() {
  std::vector<std::string> paths = {"name"};
  AddPaths(*v1alpha1::JobSpec::descriptor(), "", &paths);
  return paths;
}

absl::Status SetFields(const std::vector<std::string>& assignments, JobFile* job) {
  for (const std::string& assignment : assignments) RETURN_IF_ERROR(SetField(assignment, job));
  return absl::OkStatus();
}

}  // namespace stretto::cli
