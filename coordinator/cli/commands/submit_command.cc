// SPDX-License-Identifier: Apache-2.0

// Both commands make one job document and send it. If the connection fails meanwhile, they report
// that the job may have been created, and how to find out.

#include "coordinator/cli/commands/submit_command.h"

#include <iostream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/cli/client/reconnector.h"
#include "coordinator/cli/commands/dry_run.h"
#include "coordinator/cli/commands/memory_look.h"
#include "coordinator/cli/commands/watch_commands.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/yaml/set_field.h"
#include "proto/base/files.h"
#include "proto/base/ids.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/normalize.h"

namespace stretto::cli {
namespace {

constexpr int kMostClones = 1000;  // names that are tried for a clone
constexpr size_t kLongestName = 63;

absl::StatusOr<JobFile> ReadJobFile(const std::string& file) {
  const bool standard_input = file == "-";
  std::string text;
  if (standard_input) {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    ASSIGN_OR_RETURN(text, ReadFile(file));
  }
  return ParseJobFile(text, standard_input ? "stdin" : file);
}

absl::Status Complete(const SubmitOptions& options, JobFile* job) {
  RETURN_IF_ERROR(SetFields(options.set, job));
  if (!options.name.empty()) job->name = ShortResourceName(options.name);
  if (!job->name.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      job->file, ": found no job name, expected a line `name: my-job` or the flag --name my-job"));
}

ExitCode ReportLocal(const Invocation& invocation, const absl::Status& status) {
  invocation.terminal.err << "error: " << Printable(status.message()) << "\n";
  return kError;
}

// Called after an error that leaves open whether the job was created.
void ExplainUnknown(const Invocation& invocation, const absl::Status& status,
                    const v1alpha1::CreateJobRequest& request) {
  if (!IsTransient(status) || request.validate_only()) return;
  invocation.terminal.err
      << "Retry with --request-id " << request.request_id()
      << " to create the job exactly once, whether or not this request arrived.\n";
}

// Makes all checks of a dry run. Reports what speaks against the job, which is then an error, and
// what could not be checked. A job of this name that exists is for the request itself to judge,
// which may be a repetition.
ExitCode Look(const Invocation& invocation, v1alpha1::CreateJobRequest request, const JobFile& file,
              const std::string& planner) {
  request.set_validate_only(true);
  const absl::StatusOr<v1alpha1::Job> job = invocation.client.CreateJob(request);
  if (absl::IsAlreadyExists(job.status())) return kOk;
  if (!job.ok()) return ReportError(invocation, job.status(), &file);
  std::ostream& err = invocation.terminal.err;
  for (const v1alpha1::Condition& condition : job->conditions()) {
    if (condition.type() != "Inspected" || condition.status() != v1alpha1::Condition::UNKNOWN) {
      continue;
    }
    err << "not checked: data, weights and checkpoints: " << Printable(condition.message()) << "\n";
  }
  v1alpha1::DryRun run;
  *run.mutable_job() = *job;
  const absl::Status looked = LookAtMemory(invocation, planner, &run).status();
  if (!looked.ok()) return ReportError(invocation, looked);
  ReportNotCompared(invocation, run);
  if (!run.has_fits() || run.fits()) return kOk;
  for (const v1alpha1::DryRun::Shortage& shortage : run.shortages()) {
    err << "error: " << Printable(file.file) << ": memory of " << shortage.place() << ": "
        << shortage.description() << "\n";
  }
  err << "--dry-run shows what takes it; --no-look creates the job all the same\n";
  return kError;
}

ExitCode ShowCreated(const Invocation& invocation, const v1alpha1::Job& job,
                     const SubmitOptions& options) {
  if (options.dry_run) return DryRun(invocation, job, options.planner);
  const std::string name = ShortResourceName(job.name());
  invocation.terminal.err << "job " << name << " created\n";
  if (options.follow) return WatchJob(invocation, job.name(), FollowStyle::kLines);
  if (options.wait) return WatchJob(invocation, job.name(), FollowStyle::kQuiet);
  if (invocation.format != OutputFormat::kTable) PrintMessage(invocation, job);
  invocation.terminal.err << "Next:\n  " << Hint(invocation, absl::StrCat("job watch ", name))
                          << "\n  " << Hint(invocation, absl::StrCat("job describe ", name))
                          << "\n";
  return kOk;
}

// Sends the job. While its name is taken and `more_names` are left, tries the next name.
ExitCode Send(const Invocation& invocation, const JobFile& file, const SubmitOptions& options,
              int more_names) {
  v1alpha1::CreateJobRequest request;
  request.set_job_id(file.name);
  *request.mutable_job()->mutable_spec() = file.spec;
  request.set_request_id(options.request_id.empty() ? NewUid() : options.request_id);
  request.set_validate_only(options.dry_run);
  absl::StatusOr<v1alpha1::Job> job;
  while (true) {
    if (!options.dry_run && !options.no_look) {
      const ExitCode code = Look(invocation, request, file, options.planner);
      if (code != kOk) return code;
    }
    job = invocation.client.CreateJob(request);
    if (ErrorReason(job.status()) != "JOB_ALREADY_EXISTS" || more_names-- <= 0) break;
    request.set_job_id(NextName(request.job_id()));
  }
  if (job.ok()) return ShowCreated(invocation, *job, options);
  const ExitCode code = ReportError(invocation, job.status(), &file);
  ExplainUnknown(invocation, job.status(), request);
  return code;
}

}  // namespace

ExitCode SubmitJob(const Invocation& invocation, const std::string& path,
                   const SubmitOptions& options) {
  absl::StatusOr<JobFile> file = ReadJobFile(path);
  if (!file.ok()) return ReportLocal(invocation, file.status());
  if (absl::Status made = Complete(options, &*file); !made.ok())
    return ReportLocal(invocation, made);
  return Send(invocation, *file, options, 0);
}

ExitCode CloneJob(const Invocation& invocation, const std::string& origin,
                  const SubmitOptions& options) {
  v1alpha1::GetJobRequest request;
  request.set_name(ResourceName("jobs", origin));
  const absl::StatusOr<v1alpha1::Job> job = invocation.client.GetJob(request);
  if (!job.ok()) return ReportError(invocation, job.status());
  const std::string name = ShortResourceName(job->name());
  if (job->has_retire_time()) {
    return ReportLocal(
        invocation, absl::FailedPreconditionError(absl::StrCat(
                        "job ", name, ": found a retired job, expected one whose spec is known")));
  }
  JobFile file{.file = absl::StrCat("job ", name), .name = NextName(name)};
  file.spec = spec::WithoutDefaults(job->spec());
  const std::string proposed = file.name;
  if (absl::Status made = Complete(options, &file); !made.ok())
    return ReportLocal(invocation, made);
  return Send(invocation, file, options, file.name == proposed ? kMostClones : 0);
}

std::string NextName(const std::string& name) {
  const size_t dash = name.rfind('-');
  int number = 1;
  std::string stem = name;
  if (dash != std::string::npos && absl::SimpleAtoi(name.substr(dash + 1), &number) && number > 0 &&
      number < 1'000'000) {
    stem = name.substr(0, dash);
  } else {
    number = 1;
  }
  const std::string end = absl::StrCat("-", number + 1);
  return stem.substr(0, kLongestName - end.size()) + end;
}

}  // namespace stretto::cli
