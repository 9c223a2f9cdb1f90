// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a job would find on this node, before it is created: data, tokenizers, initial weights and
// the checkpoint that it resumes from. It takes no device and changes nothing.

#include <string>

#include "absl/status/status.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::trainer {

// Looks with the functions that rank 0 of the job would use. `task` has the spec and the roots.
v1alpha1::Inspection InspectJob(const v1alpha1::AttachResponse& task);

// Reads an AttachResponse from one file and writes the Inspection to another. Errors: those of
// reading and writing, InvalidArgument (the first file has no such message).
absl::Status InspectJobOf(const std::string& task_file, const std::string& answer_file);

}  // namespace stretto::trainer
