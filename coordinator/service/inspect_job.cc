// SPDX-License-Identifier: Apache-2.0

// Asks a worker over its session and passes the answer on from the loop. A job of epochs is created
// in two calls: a trial makes all other checks and finds a worker to ask, which counts, and then
// the request has steps.

#include "coordinator/service/inspect_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/service/create_job.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/resume_check.h"
#include "proto/spec/fields.h"

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

using Answer = std::function<void(const std::string& worker, const v1alpha1::Inspection& found)>;

// Asks a worker about the job. Returns whether one is connected, which `answer` then hears.
bool Ask(Hub& hub, const v1alpha1::Job& job, Answer answer) {
  v1alpha1::Inspect question;
  question.set_job_id(IdOf(job.name()));
  *question.mutable_spec() = job.spec();
  if (ResumesFromActiveJob(hub, job.spec()))
    question.mutable_spec()->mutable_checkpoint()->clear_resume_from();
  const std::string preferred = job.placement().empty() ? "" : IdOf(job.placement(0).worker());
  return hub.Inspect(std::move(question), preferred, std::move(answer));
}

// The steps of this number of epochs, the last step whole.
int64_t StepsOf(double epochs, int64_t steps_of_epoch) {
  const double steps = std::ceil(epochs * static_cast<double>(steps_of_epoch) * (1 - 1e-12));
  return static_cast<int64_t>(std::clamp(steps, 1.0, 2e9));  // more than any job may have
}

// Sets the steps of a request that gives epochs, or compares those that it has.
absl::Status SetSteps(const std::string& worker, const v1alpha1::Inspection& found,
                      v1alpha1::JobSpec* spec) {
  if (found.steps_of_epoch() <= 0) {
    if (spec->steps() > 0) return absl::OkStatus();  // as somebody counted them before
    return FieldError(
        "spec.epochs",
        absl::StrCat("found ", spec->epochs(),
                     ", expected a worker that counts the steps of an "
                     "epoch, but worker ",
                     worker, ": ", found.not_done().empty() ? "it did not count" : found.not_done(),
                     "; or give steps or tokens"));
  }
  const int64_t steps = StepsOf(spec->epochs(), found.steps_of_epoch());
  if (spec->steps() != 0 && spec->steps() != steps) {
    return FieldError("spec.steps",
                      absl::StrCat("found ", spec->steps(), ", expected ", steps, ", ",
                                   spec->epochs(), " epochs of ", found.steps_of_epoch(),
                                   " steps each; leave out steps or epochs"));
  }
  spec->set_steps(steps);
  return absl::OkStatus();
}

}  // namespace

void CreateAndLook(Hub& hub, const v1alpha1::CreateJobRequest& request, const Call& call,
                   v1alpha1::Job* job, const std::function<void(const absl::Status&)>& done) {
  const absl::Status status = CreateJob(hub, request, call, job);
  if (!status.ok() || !request.validate_only()) return done(status);
  InspectJob(hub, job, done);
}

void CreateJobOfEpochs(Hub& hub, const v1alpha1::CreateJobRequest& request, const Call& call,
                       v1alpha1::Job* job, const std::function<void(const absl::Status&)>& done) {
  // A repetition has the steps that were counted for the job that it made, whatever the data is
  // now.
  const auto made = hub.FindJob(request.job_id());
  if (made && !request.request_id().empty() && made->request_id == request.request_id()) {
    v1alpha1::CreateJobRequest counted = request;
    counted.mutable_job()->mutable_spec()->set_steps(made->total_steps);
    return CreateAndLook(hub, counted, call, job, done);
  }
  // Everything else is checked before a worker is asked, with as many steps as there may be.
  v1alpha1::CreateJobRequest trial = request;
  trial.set_validate_only(true);
  if (trial.job().spec().steps() == 0) {
    trial.mutable_job()->mutable_spec()->set_steps(static_cast<int64_t>(RangeOf("steps").high));
  }
  v1alpha1::Job checked;
  if (const absl::Status status = CreateJob(hub, trial, call, &checked); !status.ok())
    return done(status);
  const auto create = [&hub, &request, call, job, done](const std::string& worker,
                                                        const v1alpha1::Inspection& found) {
    v1alpha1::Job ignored;
    v1alpha1::CreateJobRequest counted = request;
    absl::Status status = Conclude(worker, found, &ignored);
    if (status.ok()) status = SetSteps(worker, found, counted.mutable_job()->mutable_spec());
    if (!status.ok()) return done(status);
    CreateAndLook(hub, counted, call, job, done);
  };
  if (Ask(hub, checked, create)) return;
  CreateAndLook(hub, request, call, job, done);  // is refused unless it has steps
}

void InspectJob(Hub& hub, v1alpha1::Job* job,
                const std::function<void(const absl::Status&)>& done) {
  if (Ask(hub, *job, [job, done](const std::string& worker, const v1alpha1::Inspection& found) {
        done(Conclude(worker, found, job));
      })) {
    return;
  }
  SetCondition(v1alpha1::Condition::UNKNOWN, "NoWorker", "no worker is connected", job);
  done(absl::OkStatus());
}

}  // namespace stretto::service
