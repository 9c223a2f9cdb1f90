// SPDX-License-Identifier: Apache-2.0

// Each command is one or two calls of the client and a print.

#include "coordinator/cli/commands/job_commands.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "coordinator/cli/client/follow.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/text/resource_name.h"
#include "proto/base/printable.h"

namespace stretto::cli {
namespace {

// Makes a call about one job, and prints the state that the job has then.
template <class Request>
ExitCode ChangeJob(const Invocation& invocation, const std::string& name,
                   absl::StatusOr<v1alpha1::Job> (Client::*call)(const Request&),
                   Request request = {}) {
  request.set_name(ResourceName("jobs", name));
  const absl::StatusOr<v1alpha1::Job> job = (invocation.client.*call)(request);
  if (!job.ok()) return ReportError(invocation, job.status());
  if (invocation.format != OutputFormat::kTable) PrintMessage(invocation, *job);
  invocation.terminal.err << "job " << ShortResourceName(job->name()) << " is "
                          << StateText(job->state(), false) << "\n";
  return kOk;
}

const v1alpha1::Condition* CheckpointRequested(const v1alpha1::Job& job) {
  for (const v1alpha1::Condition& condition : job.conditions()) {
    if (condition.type() == "CheckpointRequested") return &condition;
  }
  return nullptr;
}

// Waits until the request has its answer, and prints that.
ExitCode AwaitCheckpoint(const Invocation& invocation, const v1alpha1::Job& job) {
  const std::string id = ShortResourceName(job.name());
  const auto result = FollowJob(
      invocation, job.name(),
      {.on_job = [](const v1alpha1::Job&) {},
       .on_step = [](const v1alpha1::StepReport&) {},
       .on_notice = [&](const std::string& text) { invocation.terminal.err << text << "\n"; },
       .is_enough =
           [](const v1alpha1::Job& now) {
             const v1alpha1::Condition* requested = CheckpointRequested(now);
             return requested != nullptr && requested->status() != v1alpha1::Condition::TRUE;
           }},
      job.progress().steps());
  if (!result.ok()) return ReportError(invocation, result.status());
  if (result->detached) {
    invocation.terminal.err << "detached: job " << id << " still saves the checkpoint\n";
    return kDetached;
  }
  if (invocation.format != OutputFormat::kTable) PrintMessage(invocation, result->job);
  const v1alpha1::Condition* answer = CheckpointRequested(result->job);
  if (answer == nullptr || answer->reason() != "Saved") {
    invocation.terminal.err << "error: job " << id << " saved no checkpoint: "
                            << (answer == nullptr ? "" : Printable(answer->message())) << "\n";
    return kError;
  }
  if (invocation.format == OutputFormat::kTable) {
    invocation.terminal.out << Printable(answer->message()) << "\n";
  }
  return kOk;
}

}  // namespace

ExitCode GetJob(const Invocation& invocation, const std::string& name) {
  v1alpha1::GetJobRequest request;
  request.set_name(ResourceName("jobs", name));
  const absl::StatusOr<v1alpha1::Job> job = invocation.client.GetJob(request);
  if (!job.ok()) return ReportError(invocation, job.status());
  if (invocation.format != OutputFormat::kTable) {
    PrintMessage(invocation, *job);
  } else {
    invocation.terminal.out << JobTable({*job}, absl::Now());
  }
  return kOk;
}

ExitCode DescribeJobCommand(const Invocation& invocation, const std::string& name) {
  if (invocation.format != OutputFormat::kTable) return GetJob(invocation, name);
  v1alpha1::GetJobRequest request;
  request.set_name(ResourceName("jobs", name));
  const absl::StatusOr<v1alpha1::Job> job = invocation.client.GetJob(request);
  if (!job.ok()) return ReportError(invocation, job.status());
  invocation.terminal.out << DescribeJob(*job, absl::Now(), invocation.terminal.color);
  return kOk;
}

ExitCode CancelJob(const Invocation& invocation, const std::string& name) {
  return ChangeJob<v1alpha1::CancelJobRequest>(invocation, name, &Client::CancelJob);
}

ExitCode CheckpointJob(const Invocation& invocation, const std::string& name, bool wait) {
  v1alpha1::CheckpointJobRequest request;
  request.set_name(ResourceName("jobs", name));
  const absl::StatusOr<v1alpha1::Job> job = invocation.client.CheckpointJob(request);
  if (!job.ok()) return ReportError(invocation, job.status());
  if (wait) return AwaitCheckpoint(invocation, *job);
  if (invocation.format != OutputFormat::kTable) PrintMessage(invocation, *job);
  invocation.terminal.err << "job " << ShortResourceName(job->name())
                          << " saves a checkpoint after this step and continues\n";
  return kOk;
}

ExitCode SuspendJob(const Invocation& invocation, const std::string& name) {
  return ChangeJob<v1alpha1::SuspendJobRequest>(invocation, name, &Client::SuspendJob);
}

ExitCode ResumeJob(const Invocation& invocation, const std::string& name, int64_t steps) {
  v1alpha1::ResumeJobRequest request;
  if (steps > 0) request.set_steps(steps);
  return ChangeJob(invocation, name, &Client::ResumeJob, request);
}

ExitCode DeleteJob(const Invocation& invocation, const std::string& name) {
  v1alpha1::DeleteJobRequest request;
  request.set_name(ResourceName("jobs", name));
  const absl::StatusOr<v1alpha1::Job> job = invocation.client.DeleteJob(request);
  if (!job.ok()) return ReportError(invocation, job.status());
  if (invocation.format != OutputFormat::kTable) PrintMessage(invocation, *job);
  invocation.terminal.err << "job " << ShortResourceName(job->name())
                          << " is deleted; its checkpoints stay on disk\n";
  return kOk;
}

}  // namespace stretto::cli
