// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules that connect fields, for validate.cc alone. Each file's rules look only at fields in
// which nothing was found wrong before (Violations::Sound), so that a fault is told once.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/spec/violations.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// Whether `found` is one of the names that the field at `path` may have.
bool CheckName(absl::string_view path, absl::string_view found, Violations* violations);

// Before the table's own rules: whether there is a model at all, and whether it is its preset.
void CheckPreset(const v1alpha1::ModelSpec& model, Violations* violations);

void CheckModel(const v1alpha1::ModelSpec& model, Violations* violations);
void CheckParallelism(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckSchedule(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckBatch(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckTraining(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckData(const v1alpha1::JobSpec& spec, Violations* violations);
void CheckDevice(const v1alpha1::JobSpec& spec, Violations* violations);

// Why a path from a user may not be joined to a root; empty when it may.
std::string PathFault(absl::string_view path);
// "KIND:PATH" with one of the kinds, under the workers' data root.
void CheckWeights(absl::string_view path, absl::string_view found,
                  const std::vector<absl::string_view>& kinds, Violations* violations);

}  // namespace stretto::spec
