// SPDX-License-Identifier: Apache-2.0

// One function per kind of request. Unknown fields are found by reflection, in the request and in
// all messages within it.

#include "coordinator/service/validate_request.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/service/errors.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/version.h"
#include "proto/spec/job/labels.h"

namespace stretto::service {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr char kNameRule[] = "1 to 63 of [a-z0-9-], starting with a letter and not ending with '-'";

constexpr size_t kMostNamed = 8;  // unknown fields

// The place of a field of the message at `path` in messages of ours: "spec.model" for the field
// "model" of the spec, as everywhere else.
std::string PlaceOf(const std::string& path, const std::string& field) {
  const std::string place = path.empty() ? field : absl::StrCat(path, ".", field);
  return place == "job.spec" ? "spec" : place;
}

// Adds the fields of `message` and of all within it that this build does not know.
void FindUnknown(const google::protobuf::Message& message, const std::string& path,
                 std::vector<FieldViolation>* found) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count() && found->size() < kMostNamed; ++i) {
    found->push_back({path.empty() ? "request" : path,
                      absl::StrCat("found field ", unknown.field(i).number(),
                                   ", expected only those that this coordinator (build ",
                                   kBuildVersion, ") knows")});
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const std::string place = PlaceOf(path, field->name());
    if (!field->is_repeated()) {
      FindUnknown(reflection.GetMessage(message, field), place, found);
      continue;
    }
    const int size = reflection.FieldSize(message, field);
    for (int i = 0; i < size && found->size() < kMostNamed; ++i) {
      FindUnknown(reflection.GetRepeatedMessage(message, field, i),
                  absl::StrCat(place, "[", i, "]"), found);
    }
  }
}

}  // namespace

absl::Status ValidateCreateRequest(const v1alpha1::CreateJobRequest& request,
                                   int64_t max_spec_bytes) {
  std::vector<FieldViolation> violations;
  if (!IsValidName(request.job_id())) {
    violations.push_back(
        {"job_id", absl::StrCat("found ", Quoted(request.job_id()), ", expected ", kNameRule)});
  }
  const std::string& id = request.request_id();
  const bool printable =
      std::all_of(id.begin(), id.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (static_cast<int64_t>(id.size()) > limits::kRequestIdBytes.value || !printable) {
    violations.push_back({"request_id", absl::StrCat("found ", Quoted(id), ", expected at most ",
                                                     limits::kRequestIdBytes.value,
                                                     " printable characters, no spaces")});
  }
  if (!request.job().has_spec()) {
    violations.push_back({"spec", "found none, expected a job spec"});
  }
  const auto bytes = static_cast<int64_t>(request.job().spec().ByteSizeLong());
  if (bytes > max_spec_bytes) {
    const size_t plan = request.job().spec().schedule().plan().size();
    const std::string of_plan =
        plan > 0 ? absl::StrCat(", of which schedule.plan has ", plan) : std::string();
    violations.push_back(
        {"spec", absl::StrCat("found ", bytes, " bytes", of_plan, ", expected at most ",
                              max_spec_bytes, ", the coordinator's ", limits::kSpecBytes.flag)});
  }
  FindUnknown(request, "", &violations);
  return violations.empty() ? absl::OkStatus() : FieldErrors(violations);
}

absl::Status RefuseUnknownFields(const google::protobuf::Message& request) {
  std::vector<FieldViolation> violations;
  FindUnknown(request, "", &violations);
  return violations.empty() ? absl::OkStatus() : FieldErrors(violations);
}

absl::StatusOr<coordinator::JobFilter> FilterOf(const v1alpha1::ListJobsRequest& request) {
  RETURN_IF_ERROR(RefuseUnknownFields(request));
  coordinator::JobFilter filter;
  filter.project = request.project();
  if (!filter.project.empty() && !IsValidName(filter.project)) {
    return FieldError("project", absl::StrCat("found ", Quoted(filter.project),
                                              ", expected the name of a project"));
  }
  if (request.states_size() > v1alpha1::Job::State_MAX) {
    return FieldError(
        "states", absl::StrCat("found ", request.states_size(), ", expected at most one of each, ",
                               static_cast<int>(v1alpha1::Job::State_MAX)));
  }
  for (int i = 0; i < request.states_size(); ++i) {
    const auto state = request.states(i);
    if (state == v1alpha1::Job::STATE_UNSPECIFIED || !v1alpha1::Job::State_IsValid(state)) {
      return FieldError(absl::StrCat("states[", i, "]"),
                        absl::StrCat("found ", static_cast<int>(state), ", expected 1 to ",
                                     static_cast<int>(v1alpha1::Job::State_MAX)));
    }
    filter.states.insert(static_cast<coordinator::JobState>(state));
  }
  if (request.retired() && request.labels_size() > 0) {
    return FieldError("labels", absl::StrCat("found ", request.labels_size(),
                                             ", expected none with `retired`: labels of retired "
                                             "jobs are not kept"));
  }
  if (request.labels_size() > limits::kJobLabels.value) {
    return FieldError("labels", absl::StrCat("found ", request.labels_size(), ", expected at most ",
                                             limits::kJobLabels.value));
  }
  for (int i = 0; i < request.labels_size(); ++i) {
    const v1alpha1::LabelSelector& label = request.labels(i);
    const std::string field = absl::StrCat("labels[", i, "]");
    if (!spec::IsLabelKey(label.key())) {
      return FieldError(field + ".key", absl::StrCat("found ", Quoted(label.key()), ", expected ",
                                                     spec::kLabelKeyRule));
    }
    if (!spec::IsLabelValue(label.value())) {
      return FieldError(field + ".value", absl::StrCat("found ", Quoted(label.value()),
                                                       ", expected ", spec::kLabelValueRule));
    }
    filter.labels.push_back({label.key(), std::nullopt});
    if (label.has_value()) filter.labels.back().value = label.value();
  }
  return filter;
}

absl::StatusOr<int> PageSize(int32_t page_size) {
  if (page_size < 0) {
    return FieldError("page_size", absl::StrCat("found ", page_size, ", expected 0 or more"));
  }
  return page_size == 0 ? kDefaultPageSize : std::min<int>(page_size, limits::kPageEntries.value);
}

absl::StatusOr<std::string> ParseName(absl::string_view collection, absl::string_view name) {
  absl::string_view id = name;
  const std::string prefix = absl::StrCat(collection, "/");
  if (!absl::ConsumePrefix(&id, prefix) || !IsValidName(std::string(id))) {
    return FieldError("name", absl::StrCat("found ", Quoted(name), ", expected \"", prefix,
                                           "ID\" where ID is ", kNameRule));
  }
  return std::string(id);
}

}  // namespace stretto::service
