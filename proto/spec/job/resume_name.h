// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checkpoint that checkpoint.resume_from names: JOB or JOB/CHECKPOINT, either with @PROJECT.

#include <optional>
#include <string>

namespace stretto::spec {

struct ResumeName {
  std::string job;
  std::string checkpoint;  // "step-00000020", "best"; empty: the newest
  std::string project;     // of the job that wrote it; empty: that of the job that resumes

  // Under the workers' checkpoint root.
  std::string path() const { return checkpoint.empty() ? job : job + "/" + checkpoint; }
};

// Returns nothing if a job does not resume, or resumes from a model ("hf:FOLDER"). Every other text
// has a job.
std::optional<ResumeName> ResumeNameOf(const std::string& resume_from);

}  // namespace stretto::spec
