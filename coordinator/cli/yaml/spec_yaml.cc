// SPDX-License-Identifier: Apache-2.0

// Filler walks the tree of the file and the descriptor together and sets field by field by
// reflection. Every error has the line, the column and the path of the field; for an unknown field
// it suggests the nearest name.

#include "coordinator/cli/yaml/spec_yaml.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "coordinator/cli/yaml/yaml_scalar.h"
#include "proto/base/ids.h"
#include "proto/base/nearest_name.h"
#include "proto/base/status_macros.h"
#include "proto/document/plain_scalar.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::string Join(const std::string& path, const std::string& field) {
  return path.empty() ? field : absl::StrCat(path, ".", field);
}

std::string Prefix(const std::string& path) { return path.empty() ? "" : absl::StrCat(path, ": "); }

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

std::string Suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = NearestName(word, candidates);
  if (!near.empty()) return absl::StrCat("did you mean \"", near, "\"?");
  return absl::StrCat("expected one of: ", absl::StrJoin(candidates, ", "));
}

class Filler {
 public:
  Filler(const std::string& file, Positions* positions) : file_(file), positions_(positions) {}

  absl::Status Fill(const YamlNode& node, const std::string& path, Message* message) {
    const Descriptor& type = *message->GetDescriptor();
    if (node.kind != YamlNode::Kind::kMapping) {
      return ErrorAt(
          file_, node.position,
          absl::StrCat(Prefix(path), "found ", Describe(node),
                       ", expected a mapping of: ", absl::StrJoin(FieldNames(type), ", ")));
    }
    RETURN_IF_ERROR(CheckDuplicates(node, path));
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& key = node.keys[i];
      RETURN_IF_ERROR(CheckField(key, path, type));
      RETURN_IF_ERROR(FillField(key, node.values[i], Join(path, key.text),
                                *type.FindFieldByName(key.text), message));
    }
    return absl::OkStatus();
  }

  absl::Status CheckField(const YamlNode& key, const std::string& path, const Descriptor& type) {
    if (type.FindFieldByName(key.text) != nullptr) return absl::OkStatus();
    return ErrorAt(file_, key.position,
                   absl::StrCat(Prefix(path), "unknown field \"", key.text, "\"; ",
                                Suggestion(key.text, FieldNames(type))));
  }

  absl::Status CheckDuplicates(const YamlNode& node, const std::string& path) {
    std::map<std::string, int> lines;
    for (const YamlNode& key : node.keys) {
      const auto [first, added] = lines.emplace(key.text, key.position.line);
      if (added) continue;
      return ErrorAt(file_, key.position,
                     absl::StrCat(Join(path, key.text), ": duplicate field; first given on line ",
                                  first->second));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status FillField(const YamlNode& key, const YamlNode& value, const std::string& path,
                         const FieldDescriptor& field, Message* message) {
    if (value.kind == YamlNode::Kind::kNull) {
      return ErrorAt(file_, key.position,
                     absl::StrCat(path, ": found nothing, expected ", Expected(field)));
    }
    if (field.is_map()) return FillMap(value, path, field, message);
    if (field.is_repeated()) return FillRepeated(value, path, field, message);
    const bool nested = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    Note(path, nested ? key.position : value.position);
    if (nested) return Fill(value, path, message->GetReflection()->MutableMessage(message, &field));
    return Set(value, path, field, message);
  }

  absl::Status FillRepeated(const YamlNode& list, const std::string& path,
                            const FieldDescriptor& field, Message* message) {
    Note(path, list.position);
    message->GetReflection()->ClearField(message, &field);
    if (list.kind != YamlNode::Kind::kSequence) {
      return ErrorAt(
          file_, list.position,
          absl::StrCat(path, ": found ", Describe(list), ", expected ", Expected(field)));
    }
    for (size_t i = 0; i < list.values.size(); ++i) {
      const std::string item = absl::StrCat(path, "[", i, "]");
      Note(item, list.values[i].position);
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        RETURN_IF_ERROR(
            Fill(list.values[i], item, message->GetReflection()->AddMessage(message, &field)));
      } else {
        RETURN_IF_ERROR(Set(list.values[i], item, field, message));
      }
    }
    return absl::OkStatus();
  }

  // A map field is a repeated message of (key, value).
  absl::Status FillMap(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
                       Message* message) {
    Note(path, node.position);
    if (node.kind != YamlNode::Kind::kMapping) {
      return ErrorAt(
          file_, node.position,
          absl::StrCat(path, ": found ", Describe(node), ", expected ", Expected(field)));
    }
    RETURN_IF_ERROR(CheckDuplicates(node, path));
    const FieldDescriptor& key_field = *field.message_type()->map_key();
    const FieldDescriptor& value_field = *field.message_type()->map_value();
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const std::string item = absl::StrCat(path, "[", node.keys[i].text, "]");
      Message* entry = message->GetReflection()->AddMessage(message, &field);
      RETURN_IF_ERROR(Set(node.keys[i], item, key_field, entry));
      RETURN_IF_ERROR(FillField(node.keys[i], node.values[i], item, value_field, entry));
    }
    return absl::OkStatus();
  }

  absl::Status Set(const YamlNode& node, const std::string& path, const FieldDescriptor& field,
                   Message* message) {
    const std::string error = SetScalar(node, field, message);
    if (error.empty()) return absl::OkStatus();
    return ErrorAt(file_, node.position, absl::StrCat(path, ": ", error));
  }

  void Note(const std::string& path, SourcePosition position) {
    if (positions_ != nullptr) positions_->emplace(path, position);
  }

  const std::string& file_;
  Positions* positions_;
};

// Returns the value of a mapping's field; null if it has none.
YamlNode* ValueOf(YamlNode* node, absl::string_view name) {
  for (size_t i = 0; i < node->keys.size(); ++i) {
    if (node->keys[i].text == name) return &node->values[i];
  }
  return nullptr;
}

// Moves `name`, which belongs to the job and not to its spec, out of the mapping. `prefix` may
// precede it.
absl::Status TakeName(YamlNode* root, const std::string& file, absl::string_view prefix,
                      JobFile* job) {
  const auto key = std::find_if(root->keys.begin(), root->keys.end(),
                                [](const YamlNode& key) { return key.text == "name"; });
  if (key == root->keys.end()) return absl::OkStatus();
  const auto value = root->values.begin() + (key - root->keys.begin());
  const bool is_string =
      value->kind == YamlNode::Kind::kScalar && (value->quoted || !LooksLikeNonString(value->text));
  const std::string name(absl::StripPrefix(value->text, prefix));
  if (!is_string || !IsValidName(name)) {
    const SourcePosition position =
        value->kind == YamlNode::Kind::kNull ? key->position : value->position;
    return ErrorAt(file, position,
                   absl::StrCat("name: found ", Describe(*value),
                                ", expected 1 to 63 characters of a-z, 0-9 and '-', starting with "
                                "a letter and not ending with '-'"));
  }
  job->name = name;
  job->positions.emplace("name", value->position);
  root->keys.erase(key);
  root->values.erase(value);
  return absl::OkStatus();
}

// Replaces a mapping that is a message of `type` by the value of its field `name`. The other fields
// are output only, so nothing but their names is checked.
absl::Status Unwrap(const std::string& file, const Descriptor& type, absl::string_view name,
                    YamlNode* root) {
  Filler filler(file, nullptr);
  RETURN_IF_ERROR(filler.CheckDuplicates(*root, ""));
  for (const YamlNode& key : root->keys) RETURN_IF_ERROR(filler.CheckField(key, "", type));
  YamlNode inner = std::move(*ValueOf(root, name));
  *root = std::move(inner);
  return absl::OkStatus();
}

// Leaves the mapping of the spec's fields, whichever of the three forms of a job the document has.
absl::Status TakeSpec(YamlNode* root, JobFile* job) {
  if (ValueOf(root, "job") != nullptr)
    RETURN_IF_ERROR(Unwrap(job->file, *v1alpha1::DryRun::descriptor(), "job", root));
  if (root->kind != YamlNode::Kind::kMapping) return absl::OkStatus();  // FillMessage refuses it
  RETURN_IF_ERROR(Filler(job->file, nullptr).CheckDuplicates(*root, ""));
  if (ValueOf(root, "spec") == nullptr) return TakeName(root, job->file, "", job);
  RETURN_IF_ERROR(TakeName(root, job->file, "jobs/", job));
  return Unwrap(job->file, *v1alpha1::Job::descriptor(), "spec", root);
}

}  // namespace

absl::Status FillMessage(const YamlNode& node, const std::string& file, const std::string& path,
                         Message* message, Positions* positions) {
  return Filler(file, positions).Fill(node, path, message);
}

absl::StatusOr<JobFile> ParseJobFile(const std::string& text, const std::string& file) {
  JobFile job{.file = file};
  ASSIGN_OR_RETURN(YamlNode root, ParseYaml(text, file));
  RETURN_IF_ERROR(TakeSpec(&root, &job));
  RETURN_IF_ERROR(FillMessage(root, file, "", &job.spec, &job.positions));
  return job;
}

absl::Status FillJob(YamlNode fields, const std::string& file, JobFile* job) {
  RETURN_IF_ERROR(TakeName(&fields, file, "", job));
  return FillMessage(fields, file, "", &job->spec, nullptr);
}

std::string Locate(const JobFile& job_file, absl::string_view field) {
  absl::ConsumePrefix(&field, "job.");
  absl::ConsumePrefix(&field, "spec.");
  std::string path(field == "job_id" ? "name" : field);
  while (!path.empty()) {
    if (job_file.set.count(path) > 0) return absl::StrCat("--set ", path);
    if (const auto found = job_file.positions.find(path); found != job_file.positions.end()) {
      return absl::StrCat(job_file.file, ":", found->second.line, ":", found->second.column);
    }
    const size_t end = path.find_last_of(".[");
    path.resize(end == std::string::npos ? 0 : end);
  }
  return job_file.file;
}

}  // namespace stretto::cli
