// SPDX-License-Identifier: Apache-2.0

// Calls of users about jobs. Each unary call is posted to the loop, where it is validated,
// submitted to the core or answered from a view of it, and converted back; the reactor is finished
// there.

#include "coordinator/service/job_service.h"

#include <grpcpp/grpcpp.h>
#include <openssl/sha.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/queue_view.h"
#include "coordinator/service/convert.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/job_streams.h"
#include "coordinator/service/unary_call.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/layouts.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/ranks.h"
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

// Fingerprints the request except request_id: a call is a repetition if both are equal.
std::string Fingerprint(v1alpha1::CreateJobRequest request) {
  request.clear_request_id();
  const std::string body = request.SerializeAsString();
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(body.data()), body.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

// A block is the ranks that share a replica of a stage.
coordinator::Gang GangOf(const v1alpha1::JobSpec& spec) {
  const v1alpha1::ParallelismSpec& parallelism = spec.parallelism();
  coordinator::Gang gang{.stages = {}, .split_blocks = spec.placement().split_blocks()};
  const std::vector<int> sizes = spec::TpSizesOf(parallelism),
                         replicas = spec::ReplicasOf(parallelism);
  for (size_t stage = 0; stage < sizes.size(); ++stage)
    gang.stages.push_back({.blocks = replicas[stage], .size = sizes[stage]});
  return gang;
}

std::optional<coordinator::RestartPolicy> PolicyOf(const v1alpha1::JobSpec& spec) {
  if (!spec.has_restart()) return std::nullopt;
  coordinator::RestartPolicy policy{
      .max = spec.restart().max(), .backoff = absl::Seconds(spec.restart().backoff()), .on = {}};
  for (const int cause : spec.restart().on()) {
    policy.on.insert(static_cast<coordinator::RestartCause>(cause));
  }
  return policy;
}

coordinator::CreateJob CreateEvent(const v1alpha1::CreateJobRequest& request,
                                   const v1alpha1::JobSpec& spec) {
  coordinator::CreateJob event;
  event.job_id = request.job_id();
  event.uid = NewUid();
  event.spec = spec.SerializeAsString();
  event.gang = GangOf(spec);
  event.device_kind = spec.device();
  event.total_steps = spec.steps();
  event.restart = PolicyOf(spec);
  for (int i = 1; i <= spec.restart().layouts_size(); ++i) {
    event.fallbacks.push_back(GangOf(spec::WithLayout(spec, i)));
  }
  event.request_id = request.request_id();
  event.fingerprint = Fingerprint(request);
  event.validate_only = request.validate_only();
  return event;
}

// Adds the machine-readable reason to the core's refusal.
absl::Status CreateError(Hub& hub, const v1alpha1::CreateJobRequest& request,
                         const absl::Status& status) {
  if (absl::IsFailedPrecondition(status)) {
    return WithReason(status, "NOT_ENOUGH_SLOTS", {{"job", request.job_id()}});
  }
  if (!absl::IsAlreadyExists(status)) return status;
  // The core refuses both cases with one code. A job of this name from another request means that
  // the name is taken; otherwise the request_id was reused.
  const auto holder = hub.FindJob(request.job_id());
  const bool same_id =
      holder && (request.request_id().empty() || holder->request_id != request.request_id());
  return WithReason(status, same_id ? "JOB_ALREADY_EXISTS" : "REQUEST_ID_REUSED",
                    {{"job", request.job_id()}, {"request_id", request.request_id()}});
}

// Fills in what would happen to the job if it were created now.
void FillTrial(const coordinator::Placement& trial, v1alpha1::Job* job) {
  for (const coordinator::Placed& placed : trial.placed) {
    for (size_t rank = 0; rank < placed.ranks.size(); ++rank) {
      auto* placement = job->add_placement();
      placement->set_rank(static_cast<int32_t>(rank));
      placement->set_worker(absl::StrCat("workers/", placed.ranks[rank].worker));
      placement->set_slot(placed.ranks[rank].slot);
    }
  }
  for (const coordinator::Unplaced& unplaced : trial.unplaced) {
    auto* condition = job->add_conditions();
    condition->set_type("Scheduled");
    condition->set_status(v1alpha1::Condition::FALSE);
    condition->set_reason(unplaced.reason);
    condition->set_message(unplaced.message);
  }
}

absl::Status Create(Hub& hub, const v1alpha1::CreateJobRequest& request, v1alpha1::Job* job) {
  RETURN_IF_ERROR(ValidateCreateRequest(request));
  const v1alpha1::JobSpec spec = spec::Normalize(request.job().spec());
  const std::vector<FieldViolation> violations = spec::ViolationsOf(spec);
  if (!violations.empty()) return FieldErrors(violations);
  const coordinator::Result result = hub.Submit(CreateEvent(request, spec));
  if (!result.status.ok()) return CreateError(hub, request, result.status);
  const auto record = hub.FindJob(result.job_id);
  if (record) {
    *job = hub.Describe(*record);
  } else {  // validate_only
    job->set_name(absl::StrCat("jobs/", request.job_id()));
    *job->mutable_spec() = spec;
    job->set_state(v1alpha1::Job::PENDING);
    const coordinator::QueuedJob queued = {
        .id = request.job_id(), .gang = GangOf(spec), .kind = spec.device()};
    FillTrial(hub.driver().Read([&](const Core& core) { return core.PlaceNow(queued); }), job);
  }
  return absl::OkStatus();
}

// Submits an event that concerns one job. `reason` is that of a refusal because of its state.
template <class Event>
absl::Status Change(Hub& hub, const std::string& name, const char* reason, v1alpha1::Job* job) {
  ASSIGN_OR_RETURN(const JobRecord found, LookUpJob(hub, name));
  const absl::Status status = hub.Submit(Event{found.id}).status;
  if (absl::IsFailedPrecondition(status)) {
    return WithReason(status, reason,
                      {{"job", found.id}, {"state", coordinator::JobStateName(found.state)}});
  }
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(const JobRecord record, LookUpJob(hub, name));
  *job = hub.Describe(record);
  return absl::OkStatus();
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
  // Asks for one more than the page to find out whether another page follows.
  const auto records = hub.driver().Read([&](const Core& core) {
    std::vector<JobRecord> page;
    coordinator::QueueView view(core);
    for (const JobRecord* job : core.JobsBefore(before, page_size + 1)) {
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

class JobServiceImpl final : public v1alpha1::JobService::CallbackService {
 public:
  explicit JobServiceImpl(Hub& hub) : hub_(hub) {}

  ServerUnaryReactor* CreateJob(CallbackServerContext* context,
                                const v1alpha1::CreateJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      absl::Status status = Create(hub_, *request, job);
      if (request->validate_only()) return status;
      return Audited(context, "CreateJob", absl::StrCat("jobs/", request->job_id()),
                     request->request_id(), std::move(status));
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
  ServerUnaryReactor* SuspendJob(CallbackServerContext* context,
                                 const v1alpha1::SuspendJobRequest* request,
                                 v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(
          context, "SuspendJob", request->name(), "",
          Change<coordinator::SuspendJob>(hub_, request->name(), "JOB_ALREADY_ENDED", job));
    });
  }
  ServerUnaryReactor* ResumeJob(CallbackServerContext* context,
                                const v1alpha1::ResumeJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(
          context, "ResumeJob", request->name(), "",
          Change<coordinator::ResumeJob>(hub_, request->name(), "JOB_NOT_RESUMABLE", job));
    });
  }
  ServerUnaryReactor* CancelJob(CallbackServerContext* context,
                                const v1alpha1::CancelJobRequest* request,
                                v1alpha1::Job* job) override {
    return OnLoop(hub_, context, [this, context, request, job] {
      return Audited(
          context, "CancelJob", request->name(), "",
          Change<coordinator::CancelJob>(hub_, request->name(), "JOB_ALREADY_ENDED", job));
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
