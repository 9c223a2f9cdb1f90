// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/resume_check.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/hash.h"
#include "proto/spec/job/resume_name.h"
#include "proto/spec/job/settings.h"

namespace stretto::service {

namespace {

// Not a method, but what CreateJob does to a job of another project that it resumes from. Its owner
// needs the role there too: what is resumed is shown to all of the other project.
constexpr Method kTaking = {.path = "/CreateJob: checkpoint.resume_from",
                            .caller = tls::Role::kUser,
                            .scope = Scope::kProject,
                            .owner = tls::UserRole::kOperator,
                            .others = tls::UserRole::kOperator};

}  // namespace

bool ResumesFromActiveJob(Hub& hub, const v1alpha1::JobSpec& spec) {
  const auto name = spec::ResumeNameOf(spec.checkpoint().resume_from());
  if (!name) return false;
  const std::optional<coordinator::JobRecord> record = hub.FindJob(name->job);
  return record.has_value() && !coordinator::IsEnded(record->state);
}

absl::Status AuthorizeResume(Hub& hub, const Call& call, const v1alpha1::JobSpec& spec) {
  const std::string& resume = spec.checkpoint().resume_from();
  const auto name = spec::ResumeNameOf(resume);
  if (!name) return absl::OkStatus();
  const std::optional<coordinator::JobRecord> record = hub.FindJob(name->job);
  const Subject subject = record ? SubjectOf(*record) : Subject{.job = name->job};
  const std::string& own = spec.queue().project();
  const std::string& wanted = name->project.empty() ? own : name->project;
  if (wanted != own) {
    RETURN_IF_ERROR(Authorize(Call{.method = kTaking, .caller = call.caller}, subject));
  } else {
    RETURN_IF_ERROR(AuthorizeReading(call, "checkpoint.resume_from", subject));
  }
  if (!record || record->project == wanted) return absl::OkStatus();
  return FieldError(
      "spec.checkpoint.resume_from",
      absl::StrCat("found ", Quoted(resume), ", a job of project ", record->project,
                   ", expected one of project ", wanted, "; an operator of project ",
                   record->project, " may write ", name->path(), "@", record->project));
}

std::vector<spec::FieldViolation> DifferencesFromResumed(Hub& hub, const v1alpha1::JobSpec& spec) {
  const auto name = spec::ResumeNameOf(spec.checkpoint().resume_from());
  if (!name) return {};
  const std::optional<coordinator::JobRecord> record = hub.FindJob(name->job);
  if (!record.has_value() || record->retire_time) return {};  // the spec is not known
  const v1alpha1::Job job = hub.Describe(*record);
  const std::string& newest = job.progress().last_checkpoint();
  // An older one may be of another job that had the name.
  const bool known =
      name->checkpoint.empty() || name->checkpoint == "best" || name->checkpoint == newest;
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
         absl::StrCat("found ", one.found, ", expected ", one.expected, " as in job ", name->job,
                      ", which checkpoint.resume_from names")});
  }
  return violations;
}

}  // namespace stretto::service
