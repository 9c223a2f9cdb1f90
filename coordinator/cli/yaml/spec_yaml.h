// SPDX-License-Identifier: Apache-2.0
#pragma once
// Job files: YAML that mirrors JobSpec field by field, plus `name`. The Protobuf descriptor is the
// only schema, so a new field of the proto is automatically a field of the file.
//
// The documents that `job get -o yaml` and `job submit --dry-run -o yaml` print are job files too,
// in JSON as well: a Job, or a DryRun with a `job`. Of these only name and spec are read.
//
// The parser is strict: unknown and duplicate fields, wrong types, numbers out of range, NaN and
// infinity are errors. Enums are short lower-case names (`precision: bf16`). Text that YAML would
// read as a number, a truth value or null is a string only if it is quoted.

#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/cli/yaml/yaml_tree.h"
#include "google/protobuf/message.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

// Maps a field path ("parallelism.tp_size", "schedule.parameters.slice_sizes[1]") to its position.
using Positions = std::map<std::string, SourcePosition>;

struct JobFile {
  std::string file;
  std::string name = {};  // empty when the file gives none
  v1alpha1::JobSpec spec = {};
  Positions positions = {};
  std::set<std::string> set = {};  // paths of fields that --set has given since (set_field.h)
};

// InvalidArgument "FILE:LINE:COLUMN: FIELD: found ..., expected ..." for the first fault.
absl::StatusOr<JobFile> ParseJobFile(const std::string& text, const std::string& file);

// Fills `message` from a mapping. `path` is the prefix of field paths; positions may be null.
absl::Status FillMessage(const YamlNode& node, const std::string& file, const std::string& path,
                         google::protobuf::Message* message, Positions* positions);

// Reads the fields of a job, with or without a name, over those that it has: lists take the place
// of lists. `file` is for errors.
absl::Status FillJob(YamlNode fields, const std::string& file, JobFile* job);

// Returns "FILE:LINE:COLUMN" of a field as the server names it ("spec.parallelism.tp_size",
// "job.spec.steps", "job_id"), or of the nearest enclosing field; "FILE" if the file has none of
// it; "--set PATH" if the field was given so.
std::string Locate(const JobFile& job_file, absl::string_view field);

}  // namespace stretto::cli
