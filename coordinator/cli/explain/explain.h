// SPDX-License-Identifier: Apache-2.0
#pragma once
// The content of `stretto explain`: the public API's fields under the names that job files use. The
// table in proto/spec/fields.h describes fields of a job spec; comments in job.proto describe all
// others. Pure.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/cli/explain/comment.h"
#include "google/protobuf/descriptor.h"
#include "proto/spec/fields.h"

namespace stretto::cli {

using ValueDoc = ValueText;  // name: as in job files, "bf16"

struct FieldDoc {
  std::string path;              // "job.spec.schedule"
  std::string type;              // "ScheduleSpec", "integer", "[]integer", "time"
  Comment comment;               // the field's own; for "job" and "worker" that of the message
  Comment about;                 // the comment of the field's message or enum
  std::vector<ValueDoc> values;  // of an enum, or of a string that is a name
  std::vector<FieldDoc> fields;  // of a message
  std::string name() const;      // the last part of the path
};

// Returns the field at `path`: "job" or "worker", then names of fields. "job.spec" may be shortened
// to "spec" or left out as in a job file: "schedule.name", "name". Indices ("slice_sizes[1]") are
// ignored. Errors: InvalidArgument if there is no such field, with the nearest name or all names.
absl::StatusOr<FieldDoc> ExplainField(absl::string_view path);

// Returns a message of the API and all its fields, by the name of its type; its path is `path`.
FieldDoc ExplainMessage(const google::protobuf::Descriptor& type, const std::string& path);

// Returns the comment before a declaration, or else the one after it.
template <class Descriptor>
Comment CommentOf(const Descriptor& descriptor) {
  google::protobuf::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return {};
  return ParseComment(location.leading_comments.empty() ? location.trailing_comments
                                                        : location.leading_comments);
}

}  // namespace stretto::cli
