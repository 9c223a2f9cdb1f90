// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/resume_name.h"

#include "absl/strings/match.h"

namespace stretto::spec {

std::optional<ResumeName> ResumeNameOf(const std::string& resume_from) {
  if (resume_from.empty() || absl::StartsWith(resume_from, "hf:")) return std::nullopt;
  ResumeName name;
  const size_t at = resume_from.rfind('@');
  if (at != std::string::npos) name.project = resume_from.substr(at + 1);
  name.job = resume_from.substr(0, at);
  const size_t slash = name.job.find('/');
  if (slash != std::string::npos) {
    name.checkpoint = name.job.substr(slash + 1);
    name.job.resize(slash);
  }
  return name;
}

}  // namespace stretto::spec
