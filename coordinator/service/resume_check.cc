// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/resume_check.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/service/job_service.h"
#include "proto/spec/job/hash.h"
#include "proto/spec/job/settings.h"

namespace stretto::service {

namespace {

// Job and checkpoint that a spec resumes from; none if it names no job.
using Resumed = std::pair<std::string, std::string>;
std::optional<Resumed> ResumedFrom(const v1alpha1::JobSpec& spec) {
  const std::string& resume = spec.checkpoint().resume_from();
  if (resume.empty() || absl::StartsWith(resume, "hf:")) return std::nullopt;
  return Resumed(absl::StrSplit(resume, absl::MaxSplits('/', 1)));
}

}  // namespace

bool ResumesFromActiveJob(Hub& hub, const v1alpha1::JobSpec& spec) {
  const std::optional<Resumed> name = ResumedFrom(spec);
  if (!name) return false;
  const std::optional<coordinator::JobRecord> record = hub.FindJob(name->first);
  return record.has_value() && !coordinator::IsEnded(record->state);
}

absl::Status AuthorizeResume(Hub& hub, const Call& call, const v1alpha1::JobSpec& spec) {
  const std::optional<Resumed> name = ResumedFrom(spec);
  if (!name) return absl::OkStatus();
  const std::optional<coordinator::JobRecord> record = hub.FindJob(name->first);
  const Subject subject = record ? SubjectOf(*record) : Subject{.job = name->first};
  return AuthorizeReading(call, "checkpoint.resume_from", subject);
}

std::vector<spec::FieldViolation> DifferencesFromResumed(Hub& hub, const v1alpha1::JobSpec& spec) {
  const std::optional<Resumed> resumed = ResumedFrom(spec);
  if (!resumed) return {};
  const Resumed& name = *resumed;
  const std::optional<coordinator::JobRecord> record = hub.FindJob(name.first);
  if (!record.has_value()) return {};
  const v1alpha1::Job job = hub.Describe(*record);
  const std::string& newest = job.progress().last_checkpoint();
  // An older one may be of another job that had the name.
  const bool known = name.second.empty() || name.second == "best" || name.second == newest;
  if (newest.empty() || !known) return {};
  v1alpha1::JobSpec theirs = job.spec(), ours = spec;
  // A decay that is left open is that of the checkpoint.
  if (!ours.optimizer().has_decay_steps() || !theirs.optimizer().has_decay_steps()) {
    ours.mutable_optimizer()->clear_decay_steps();
    theirs.mutable_optimizer()->clear_decay_steps();
  }
  if (spec::MathHashOf(ours) == spec::MathHashOf(theirs)) return {};
  std::vector<spec::FieldViolation> violations;
  for (const spec::Difference& one :
       spec::DifferencesOf(spec::SettingsOf(ours), spec::SettingsOf(theirs))) {
    violations.push_back(
        {absl::StrCat("spec.", one.path),
         absl::StrCat("found ", one.found, ", expected ", one.expected, " as in job ", name.first,
                      ", which checkpoint.resume_from names")});
  }
  return violations;
}

}  // namespace stretto::service
