// SPDX-License-Identifier: Apache-2.0

// Fills in the defaults of a spec, validates what it alone can show, and passes the rest to the
// core as plain values.

#include "coordinator/service/create_job.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <openssl/sha.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/core/event.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/resume_check.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/check.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/layouts.h"
#include "proto/spec/job/normalize.h"
#include "proto/spec/job/ranks.h"
#include "proto/spec/job/validate.h"

namespace stretto::service {
namespace {

using coordinator::Core;
using coordinator::JobRecord;

// The bytes of a message, which are the same for equal messages: maps have an order.
std::string BytesOf(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  STRETTO_CHECK(message.SerializeToCodedStream(&coded));
  coded.Trim();
  return bytes;
}

// Fingerprints the request except request_id: a call is a repetition if both are equal.
std::string Fingerprint(v1alpha1::CreateJobRequest request) {
  request.clear_request_id();
  const std::string body = BytesOf(request);
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
                                   const v1alpha1::JobSpec& spec, const tls::Identity& caller) {
  coordinator::CreateJob event;
  event.job_id = request.job_id();
  event.uid = NewUid();
  event.spec = SpecBytes(spec);
  event.gang = GangOf(spec);
  event.device_kind = spec.device();
  event.total_steps = spec.steps();
  event.restart = PolicyOf(spec);
  for (int i = 1; i <= spec.restart().layouts_size(); ++i) {
    event.fallbacks.push_back(GangOf(spec::WithLayout(spec, i)));
  }
  event.priority = spec.queue().priority();
  event.project = spec.queue().project();
  event.labels = {spec.labels().begin(), spec.labels().end()};
  event.saves = !spec.checkpoint().disabled();
  event.owner = caller.name;
  event.caller = caller.uri;
  event.request_id = request.request_id();
  event.fingerprint = Fingerprint(request);
  event.validate_only = request.validate_only();
  return event;
}

// Adds the machine-readable reason to the core's refusal.
absl::Status CreateError(Hub& hub, const v1alpha1::CreateJobRequest& request,
                         const coordinator::CreateJob& event, const absl::Status& status) {
  if (absl::IsFailedPrecondition(status)) {
    return WithReason(status, "NOT_ENOUGH_SLOTS", {{"job", request.job_id()}});
  }
  if (absl::IsResourceExhausted(status)) {
    // A full disk has this code too. The refusal changed nothing, so the core answers the same.
    const bool quota = hub.driver().Read([&](const Core& core) {
      return !core.CheckQuota(event.project, event.gang.ranks(), event.spec).ok();
    });
    if (!quota) return status;
    return WithReason(status, "QUOTA_EXCEEDED",
                      {{"job", request.job_id()}, {"project", event.project}});
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

// The job as the core would have it, as far as PlaceNow reads it.
JobRecord TrialOf(const coordinator::CreateJob& event) {
  JobRecord job;
  job.id = event.job_id;
  job.gang = event.gang;
  job.device_kind = event.device_kind;
  job.priority = event.priority;
  job.project = event.project;
  return job;
}

}  // namespace

std::string SpecBytes(const v1alpha1::JobSpec& spec) { return BytesOf(spec); }

absl::Status CreateJob(Hub& hub, const v1alpha1::CreateJobRequest& request, const Call& call,
                       v1alpha1::Job* job) {
  RETURN_IF_ERROR(ValidateCreateRequest(request, hub.limits().max_spec_bytes));
  const v1alpha1::JobSpec spec = spec::Normalize(request.job().spec());
  const std::vector<FieldViolation> violations = spec::ViolationsOf(spec);
  if (!violations.empty()) return FieldErrors(violations);
  RETURN_IF_ERROR(Authorize(
      call,
      {.job = request.job_id(), .owner = call.caller.name, .project = spec.queue().project()}));
  // A call that is repeated has made its job already.
  if (!hub.FindJob(request.job_id())) {
    RETURN_IF_ERROR(AuthorizeResume(hub, call, spec));
    const std::vector<FieldViolation> differences = DifferencesFromResumed(hub, spec);
    if (!differences.empty()) return FieldErrors(differences);
  }
  const coordinator::CreateJob event = CreateEvent(request, spec, call.caller);
  const coordinator::Result result = hub.Submit(event);
  if (!result.status.ok()) return CreateError(hub, request, event, result.status);
  const auto record = hub.FindJob(result.job_id);
  if (record) {
    *job = hub.Describe(*record);
  } else {  // validate_only
    job->set_name(absl::StrCat("jobs/", request.job_id()));
    *job->mutable_spec() = spec;
    job->set_state(v1alpha1::Job::PENDING);
    job->set_owner(call.caller.name);
    const JobRecord trial = TrialOf(event);
    FillTrial(hub.driver().Read([&](const Core& core) { return core.PlaceNow(trial); }), job);
  }
  return absl::OkStatus();
}

}  // namespace stretto::service
