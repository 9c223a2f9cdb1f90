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
constexpr size_t kMaxPageBytes = size_t{2} << 20;

// Submits an event that concerns the job `found`. `reason` is that of a refusal because of its
// state, and `reason_unsaved` that of a job that writes no checkpoints, if this is another one.
absl::Status Change(Hub& hub, const JobRecord& found, const coordinator::Event& event,
                    const char* reason, v1alpha1::Job* job, const char* reason_unsaved = nullptr) {
  const absl::Status status = hub.Submit(event).status;
  if (absl::IsFailedPrecondition(status)) {
    return WithReason(status, found.saves || reason_unsaved == nullptr ? reason : reason_unsaved,
                      {{"job", found.id}, {"state", coordinator::JobStateName(found.state)}});
  }
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(const JobRecord record, LookUpJob(hub, absl::StrCat("jobs/", found.id)));
  *job = hub.Describe(record);
  return absl::OkStatus();
}

// The same for an event that has nothing but the job and the caller.
template <class Event>
absl::Status Change(Hub& hub, const CallbackServerContext* context, const std::string& name,
                    const char* reason, v1alpha1::Job* job, const char* reason_unsaved = nullptr) {
  ASSIGN_OR_RETURN(const JobRecord found, LookUpJob(hub, name));
  return Change(hub, found, Event{found.id, CallerUri(context)}, reason, job, reason_unsaved);
}

absl::Status Resume(Hub& hub, const CallbackServerContext* context,
                    const v1alpha1::ResumeJobRequest& request, v1alpha1::Job* job) {
  ASSIGN_OR_RETURN(const JobRecord found, LookUpJob(hub, request.name()));
  coordinator::ResumeJob event{found.id, CallerUri(context)};
  if (request.has_steps()) {
    if (request.steps() <= found.total_steps) {
      return FieldError("steps", absl::StrCat("found ", request.steps(), ", expected more than ",
                                              found.total_steps, ", the steps of the job"));
    }
    v1alpha1::JobSpec spec = hub.Describe(found).spec();
    spec.set_steps(request.steps());
    // Nothing but the steps can be at fault.
    const std::vector<FieldViolation> violations = spec::ViolationsOf(spec);
    if (!violations.empty()) return FieldError("steps", violations[0].description);
    event.total_steps = request.steps();
    event.spec = SpecBytes(spec);
  }
  return Change(hub, found, event, "JOB_NOT_RESUMABLE", job);
}

absl::Status Delete(Hub& hub, const std::string& name, v1alpha1::Job* job) {
  ASSIGN_OR_RETURN(const JobRecord found, LookUpJob(hub, name));
  *job = hub.Describe(found);
  const absl::Status status = hub.Submit(coordinator::DeleteJob{found.id}).status;
  if (!absl::IsFailedPrecondition(status)) return status;
  return WithReason(status, "JOB_NOT_ENDED",
                    {{"job", found.id}, {"state", coordinator::JobStateName(found.state)}});
}

absl::Status ListJobs(Hub& hub, const v1alpha1::ListJobsRequest& request,
                      v1alpha1::ListJobsResponse* response) {
  ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const std::string last, ReadToken("jobs", request.page_token()));
  int64_t before = INT64_MAX;
  if (!last.empty() && !absl::SimpleAtoi(last, &before)) {
    return FieldError("page_token", "found a damaged token, expected a next_page_token");
  }
  ASSIGN_OR_RETURN(const coordinator::JobFilter filter, FilterOf(request));
  // Asks for one more than the page to find out whether another page follows.
  const auto records = hub.driver().Read([&](const Core& core) {
    std::vector<JobRecord> page;
    coordinator::QueueView view(core);
    for (const JobRecord* job : core.JobsBefore(before, page_size + 1, filter)) {
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

absl::Status ListJobEvents(Hub& hub, const v1alpha1::ListJobEventsRequest& request,
                           v1alpha1::ListJobEventsResponse* response) {
  ASSIGN_OR_RETURN(const JobRecord record, LookUpJob(hub, request.name()));
  for (const coordinator::JobEvent& event : record.events.events()) {
    if (event.number > request.after_number()) *response->add_events() = ToProto(event);
  }
  return absl::OkStatus();
}

class JobServiceImpl final : public v1alpha1::JobService::CallbackService {
 public:
  explicit JobServiceImpl(Hub& hub) : hub_(hub) {}

  ServerUnaryReactor* CreateJob(CallbackServerContext* context,
                                const v1alpha1::CreateJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoopLater(hub_, context, [this, context, request, job](Finish finish) {
      absl::Status status = service::CreateJob(hub_, *request, CallerUri(context), job);
      if (!request->validate_only()) {
        return finish(Audited(context, "CreateJob", absl::StrCat("jobs/", request->job_id()),
                              request->request_id(), std::move(status)));
      }
      if (!status.ok()) return finish(status);
      InspectJob(hub_, job, std::move(finish));
    });
  }
  ServerUnaryReactor* GetJob(CallbackServerContext* context, const v1alpha1::GetJobRequest* request,
                             v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, request, job]() -> absl::Status {
      ASSIGN_OR_RETURN(const JobRecord record, LookUpJob(hub_, request->name()));
      *job = hub_.Describe(record);
      return absl::OkStatus();
    });
  }
  ServerUnaryReactor* ListJobs(CallbackServerContext* context,
                               const v1alpha1::ListJobsRequest* request,
                               v1alpha1::ListJobsResponse* response) override {
    return OnLoop(hub_, context, [this, request, response] {
      return service::ListJobs(hub_, *request, response);
    });
  }
  ServerUnaryReactor* ListJobEvents(CallbackServerContext* context,
                                    const v1alpha1::ListJobEventsRequest* request,
                                    v1alpha1::ListJobEventsResponse* response) override {
    return OnLoop(hub_, context, [this, request, response] {
      return service::ListJobEvents(hub_, *request, response);
    });
  }
  ServerUnaryReactor* CheckpointJob(CallbackServerContext* context,
                                    const v1alpha1::CheckpointJobRequest* request,
                                    v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(
          context, "CheckpointJob", request->name(), "",
          Change<coordinator::CheckpointJob>(hub_, context, request->name(), "JOB_NOT_RUNNING", job,
                                             "CHECKPOINTS_DISABLED"));
    });
  }
  ServerUnaryReactor* SuspendJob(CallbackServerContext* context,
                                 const v1alpha1::SuspendJobRequest* request,
                                 v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(context, "SuspendJob", request->name(), "",
                     Change<coordinator::SuspendJob>(hub_, context, request->name(),
                                                     "JOB_ALREADY_ENDED", job));
    });
  }
  ServerUnaryReactor* ResumeJob(CallbackServerContext* context,
                                const v1alpha1::ResumeJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(context, "ResumeJob", request->name(), "",
                     Resume(hub_, context, *request, job));
    });
  }
  ServerUnaryReactor* CancelJob(CallbackServerContext* context,
                                const v1alpha1::CancelJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(
          context, "CancelJob", request->name(), "",
          Change<coordinator::CancelJob>(hub_, context, request->name(), "JOB_ALREADY_ENDED", job));
    });
  }
  ServerUnaryReactor* DeleteJob(CallbackServerContext* context,
                                const v1alpha1::DeleteJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(context, "DeleteJob", request->name(), "", Delete(hub_, request->name(), job));
    });
  }
  grpc::ServerWriteReactor<v1alpha1::WatchJobResponse>* WatchJob(
      CallbackServerContext*, const v1alpha1::WatchJobRequest* request) override {
    return WatchJobStream(hub_, *request);
  }
  grpc::ServerWriteReactor<v1alpha1::StreamJobLogsResponse>* StreamJobLogs(
      CallbackServerContext*, const v1alpha1::StreamJobLogsRequest* request) override {
    return JobLogsStream(hub_, *request);
  }
  grpc::ServerWriteReactor<v1alpha1::StreamJobTraceResponse>* StreamJobTrace(
      CallbackServerContext*, const v1alpha1::StreamJobTraceRequest* request) override {
    return JobTraceStream(hub_, *request);
  }

 private:
  Hub& hub_;
};

}  // namespace

absl::StatusOr<JobRecord> LookUpJob(Hub& hub, const std::string& name) {
  ASSIGN_OR_RETURN(const std::string id, ParseName("jobs", name));
  auto record = hub.FindJob(id);
  if (record) return *std::move(record);
  return WithReason(absl::NotFoundError(absl::StrCat("no job \"", id, "\"")), "JOB_NOT_FOUND",
                    {{"job", id}});
}

std::unique_ptr<grpc::Service> NewJobService(Hub& hub) {
  return std::make_unique<JobServiceImpl>(hub);
}

}  // namespace stretto::service
