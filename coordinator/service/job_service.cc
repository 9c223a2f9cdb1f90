// SPDX-License-Identifier: Apache-2.0

// Calls of users about jobs. Each unary call is posted to the loop, where it is validated,
// submitted to the core or answered from a view of it, and converted back; the reactor is finished
// there.

#include "coordinator/service/job_service.h"

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/queue_view.h"
#include "coordinator/service/convert.h"
#include "coordinator/service/create_job.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/inspect_job.h"
#include "coordinator/service/job_streams.h"
#include "coordinator/service/unary_call.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/validate.h"
#include "stretto/v1alpha1/job.grpc.pb.h"

namespace stretto::service {
namespace {

using coordinator::Core;
using coordinator::JobRecord;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// A page ends early if its response would exceed what clients accept by default (4 MiB).
constexpr size_t kMaxPageBytes = limits::kPageBytes.value;

// Submits an event that concerns the job `found`. `reason` is that of a refusal because of its
// state, and `reason_unsaved` that of a job that writes no checkpoints, if this is another one.
absl::Status Change(Hub& hub, const Call& call, const JobRecord& found,
                    const coordinator::Event& event, const char* reason, v1alpha1::Job* job,
                    const char* reason_unsaved = nullptr) {
  const absl::Status status = hub.Submit(event).status;
  if (absl::IsFailedPrecondition(status)) {
    return WithReason(status, found.saves || reason_unsaved == nullptr ? reason : reason_unsaved,
                      {{"job", found.id}, {"state", coordinator::JobStateName(found.state)}});
  }
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(const JobRecord record, LookUpJob(hub, call, absl::StrCat("jobs/", found.id)));
  *job = hub.Describe(record);
  return absl::OkStatus();
}

// The same for an event that has nothing but the job and the caller.
template <class Event>
absl::Status Change(Hub& hub, const Call& call, const std::string& name, const char* reason,
                    v1alpha1::Job* job, const char* reason_unsaved = nullptr) {
  ASSIGN_OR_RETURN(const JobRecord found, LookUpJob(hub, call, name));
  return Change(hub, call, found, Event{found.id, call.caller.uri}, reason, job, reason_unsaved);
}

absl::Status Resume(Hub& hub, const Call& call, const v1alpha1::ResumeJobRequest& request,
                    v1alpha1::Job* job) {
  ASSIGN_OR_RETURN(const JobRecord found, LookUpJob(hub, call, request.name()));
  coordinator::ResumeJob event{found.id, call.caller.uri};
  if (request.has_steps() && !found.retire_time) {
    if (request.steps() <= found.total_steps) {
      return FieldError("steps", absl::StrCat("found ", request.steps(), ", expected more than ",
                                              found.total_steps, ", the steps of the job"));
    }
    v1alpha1::JobSpec spec = hub.Describe(found).spec();
    spec.set_steps(request.steps());
    spec.clear_tokens();  // which gave the length before
    spec.clear_epochs();
    // Nothing but the steps can be at fault.
    const std::vector<FieldViolation> violations = spec::ViolationsOf(spec);
    if (!violations.empty()) return FieldError("steps", violations[0].description);
    event.total_steps = request.steps();
    event.spec = SpecBytes(spec);
  }
  return Change(hub, call, found, event, "JOB_NOT_RESUMABLE", job);
}

absl::Status Delete(Hub& hub, const Call& call, const std::string& name, v1alpha1::Job* job) {
  ASSIGN_OR_RETURN(const JobRecord found, LookUpJob(hub, call, name));
  *job = hub.Describe(found);
  const absl::Status status = hub.Submit(coordinator::DeleteJob{found.id}).status;
  if (!absl::IsFailedPrecondition(status)) return status;
  return WithReason(status, "JOB_NOT_ENDED",
                    {{"job", found.id}, {"state", coordinator::JobStateName(found.state)}});
}

class JobServiceImpl final : public v1alpha1::JobService::CallbackService {
 public:
  explicit JobServiceImpl(Hub& hub) : hub_(hub) {}

  ServerUnaryReactor* CreateJob(CallbackServerContext* context,
                                const v1alpha1::CreateJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoopLater(hub_, context,
                       {.name = absl::StrCat("jobs/", request->job_id()),
                        .request_id = request->request_id(),
                        .changes = !request->validate_only()},
                       [this, request, job](const Call& call, const Finish& finish) {
                         if (request->job().spec().epochs() > 0)
                           return CreateJobOfEpochs(hub_, *request, call, job, finish);
                         CreateAndLook(hub_, *request, call, job, finish);
                       });
  }
  ServerUnaryReactor* GetJob(CallbackServerContext* context, const v1alpha1::GetJobRequest* request,
                             v1alpha1::Job* job) override {
    return OnLoop(hub_, context, {}, [this, request, job](const Call& call) -> absl::Status {
      ASSIGN_OR_RETURN(const JobRecord record, LookUpJob(hub_, call, request->name()));
      *job = hub_.Describe(record);
      return absl::OkStatus();
    });
  }
  ServerUnaryReactor* ListJobs(CallbackServerContext* context,
                               const v1alpha1::ListJobsRequest* request,
                               v1alpha1::ListJobsResponse* response) override {
    return OnLoop(hub_, context, {}, [this, request, response](const Call& call) {
      return service::ListJobs(hub_, call, *request, response);
    });
  }
  ServerUnaryReactor* ListJobEvents(CallbackServerContext* context,
                                    const v1alpha1::ListJobEventsRequest* request,
                                    v1alpha1::ListJobEventsResponse* response) override {
    return OnLoop(hub_, context, {}, [this, request, response](const Call& call) {
      return service::ListJobEvents(hub_, call, *request, response);
    });
  }
  ServerUnaryReactor* CheckpointJob(CallbackServerContext* context,
                                    const v1alpha1::CheckpointJobRequest* request,
                                    v1alpha1::Job* job) override {
    return OnLoop(hub_, context, {request->name()}, [this, request, job](const Call& call) {
      return Change<coordinator::CheckpointJob>(hub_, call, request->name(), "JOB_NOT_RUNNING", job,
                                                "CHECKPOINTS_DISABLED");
    });
  }
  ServerUnaryReactor* SuspendJob(CallbackServerContext* context,
                                 const v1alpha1::SuspendJobRequest* request,
                                 v1alpha1::Job* job) override {
    return OnLoop(hub_, context, {request->name()}, [this, request, job](const Call& call) {
      return Change<coordinator::SuspendJob>(hub_, call, request->name(), "JOB_ALREADY_ENDED", job);
    });
  }
  ServerUnaryReactor* ResumeJob(CallbackServerContext* context,
                                const v1alpha1::ResumeJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, {request->name()}, [this, request, job](const Call& call) {
      return Resume(hub_, call, *request, job);
    });
  }
  ServerUnaryReactor* CancelJob(CallbackServerContext* context,
                                const v1alpha1::CancelJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, {request->name()}, [this, request, job](const Call& call) {
      return Change<coordinator::CancelJob>(hub_, call, request->name(), "JOB_ALREADY_ENDED", job);
    });
  }
  ServerUnaryReactor* DeleteJob(CallbackServerContext* context,
                                const v1alpha1::DeleteJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, {request->name()}, [this, request, job](const Call& call) {
      return Delete(hub_, call, request->name(), job);
    });
  }
  grpc::ServerWriteReactor<v1alpha1::WatchJobResponse>* WatchJob(
      CallbackServerContext* context, const v1alpha1::WatchJobRequest* request) override {
    return WatchJobStream(hub_, CallOf(hub_, context), *request);
  }
  grpc::ServerWriteReactor<v1alpha1::StreamJobLogsResponse>* StreamJobLogs(
      CallbackServerContext* context, const v1alpha1::StreamJobLogsRequest* request) override {
    return JobLogsStream(hub_, CallOf(hub_, context), *request);
  }
  grpc::ServerWriteReactor<v1alpha1::StreamJobTraceResponse>* StreamJobTrace(
      CallbackServerContext* context, const v1alpha1::StreamJobTraceRequest* request) override {
    return JobTraceStream(hub_, CallOf(hub_, context), *request);
  }

 private:
  Hub& hub_;
};

}  // namespace

Subject SubjectOf(const JobRecord& job) {
  return {.job = job.id, .owner = job.owner, .project = job.project};
}

absl::StatusOr<JobRecord> LookUpJob(Hub& hub, const Call& call, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string id, ParseName("jobs", name));
  auto record = hub.FindJob(id);
  if (!record) {
    return WithReason(absl::NotFoundError(absl::StrCat("no job \"", id, "\"")), "JOB_NOT_FOUND",
                      {{"job", id}});
  }
  RETURN_IF_ERROR(Authorize(call, SubjectOf(*record)));
  return *std::move(record);
}

absl::Status CheckNotRetired(const JobRecord& job, absl::string_view what) {
  if (!job.retire_time) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "job ", job.id, ": found ", coordinator::JobStateName(job.state),
          " and retired, expected a job whose ", what, " are known; those on disk stay there")),
      "JOB_RETIRED", {{"job", job.id}});
}

absl::Status ListJobs(Hub& hub, const Call& call, const v1alpha1::ListJobsRequest& request,
                      v1alpha1::ListJobsResponse* response) {
  ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const std::string last, ReadToken("jobs", request.page_token()));
  int64_t before = INT64_MAX;
  if (!last.empty() && !absl::SimpleAtoi(last, &before)) {
    return FieldError("page_token", "found a damaged token, expected a next_page_token");
  }
  ASSIGN_OR_RETURN(const coordinator::JobFilter filter, FilterOf(request));
  if (!filter.project.empty()) RETURN_IF_ERROR(Authorize(call, {.project = filter.project}));
  const auto listed = [&](const JobRecord& job) {
    return filter.Admits(job) && IsAllowed(call.method, call.caller, SubjectOf(job));
  };
  // Asks for one more than the page to find out whether another page follows.
  const auto records = hub.driver().Read([&](const Core& core) {
    std::vector<JobRecord> page;
    coordinator::QueueView view(core);
    for (const JobRecord* job : request.retired()
                                    ? core.RetiredBefore(before, page_size + 1, listed)
                                    : core.JobsBefore(before, page_size + 1, listed)) {
      page.push_back(view.Shown(*job));
    }
    return page;
  });
  size_t bytes = 0;
  for (const JobRecord& record : records) {
    if (response->jobs_size() == page_size || bytes > kMaxPageBytes) {
      const JobRecord& end = records[response->jobs_size() - 1];
      response->set_next_page_token(MakeToken("jobs", absl::StrCat(end.number)));
      break;
    }
    *response->add_jobs() = hub.Describe(record);
    bytes += response->jobs(response->jobs_size() - 1).ByteSizeLong();
  }
  return absl::OkStatus();
}

absl::Status ListJobEvents(Hub& hub, const Call& call,
                           const v1alpha1::ListJobEventsRequest& request,
                           v1alpha1::ListJobEventsResponse* response) {
  ASSIGN_OR_RETURN(const JobRecord record, LookUpJob(hub, call, request.name()));
  for (const coordinator::JobEvent& event : record.events.events()) {
    if (event.number > request.after_number()) *response->add_events() = ToProto(event);
  }
  return absl::OkStatus();
}

std::unique_ptr<grpc::Service> NewJobService(Hub& hub) {
  return std::make_unique<JobServiceImpl>(hub);
}

}  // namespace stretto::service
