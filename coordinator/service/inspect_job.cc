// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/inspect_job.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/resume_check.h"

namespace stretto::service {
namespace {

// "jobs/a" and "workers/a": "a".
std::string IdOf(const std::string& name) { return name.substr(name.find('/') + 1); }

void SetCondition(v1alpha1::Condition::Status status, absl::string_view reason,
                  absl::string_view message, v1alpha1::Job* job) {
  auto* condition = job->add_conditions();
  condition->set_type("Inspected");
  condition->set_status(status);
  condition->set_reason(std::string(reason));
  condition->set_message(std::string(message));
}

absl::Status Conclude(const std::string& worker, const v1alpha1::Inspection& found,
                      v1alpha1::Job* job) {
  if (!found.not_done().empty()) {
    SetCondition(v1alpha1::Condition::UNKNOWN, "NotDone",
                 absl::StrCat("worker ", worker, ": ", found.not_done()), job);
    return absl::OkStatus();
  }
  std::vector<FieldViolation> violations;
  for (const v1alpha1::InspectionFinding& problem : found.problems()) {
    violations.push_back(
        {problem.field() == "spec" ? "spec" : absl::StrCat("spec.", problem.field()),
         absl::StrCat("worker ", worker, ": ", problem.message())});
  }
  if (!violations.empty()) return FieldErrors(violations);
  SetCondition(v1alpha1::Condition::TRUE, "Found",
               absl::StrCat("worker ", worker, ": ", absl::StrJoin(found.facts(), "; ")), job);
  return absl::OkStatus();
}

}  // namespace

void InspectJob(Hub& hub, v1alpha1::Job* job, std::function<void(const absl::Status&)> done) {
  v1alpha1::Inspect question;
  question.set_job_id(IdOf(job->name()));
  *question.mutable_spec() = job->spec();
  if (ResumesFromActiveJob(hub, job->spec()))
    question.mutable_spec()->mutable_checkpoint()->clear_resume_from();
  const std::string preferred = job->placement().empty() ? "" : IdOf(job->placement(0).worker());
  const bool asked =
      hub.Inspect(std::move(question), preferred,
                  [job, done](const std::string& worker, const v1alpha1::Inspection& found) {
                    done(Conclude(worker, found, job));
                  });
  if (asked) return;
  SetCondition(v1alpha1::Condition::UNKNOWN, "NoWorker", "no worker is connected", job);
  done(absl::OkStatus());
}

}  // namespace stretto::service
