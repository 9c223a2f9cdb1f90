// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules that connect fields, for validate.cc only. The rules of each file look only at fields
// without an earlier violation (Violations::Sound), so that each fault is reported once.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Returns whether `found` is one of the names that the field at `path` may have.
bool CheckName(absl::string_view path, absl::string_view found, Violations* violations);

// Runs before the table's own rules: checks that there is a model and that it agrees with its
// preset.
void CheckPreset(const v1alpha1::ModelSpec& model, Violations* violations);

void CheckModel(const v1alpha1::ModelSpec& model, Violations* violations);
void CheckParallelism(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckSchedule(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckBatch(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckTraining(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckData(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckLabels(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckDevice(const v1alpha1::JobSpec& spec, Violations* violations);

// Returns why a path from a user may not be joined to a root; empty if it may.
std::string PathFault(absl::string_view path);
// Checks "KIND:PATH", where KIND is one of `kinds` and PATH is under the workers' data root.
void CheckWeights(absl::string_view path, absl::string_view found,
                  const std::vector<absl::string_view>& kinds, Violations* violations);

}  // namespace stretto::spec
