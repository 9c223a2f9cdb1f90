// SPDX-License-Identifier: Apache-2.0

// Posts a call to the loop and waits for its answer. What both sides hold outlives whichever ends
// first: a caller that has given up, or a loop that has stopped.

#include "coordinator/service/reader.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/cluster_service.h"
#include "coordinator/service/job_service.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace stretto::service {
namespace {

// What a caller waits for and the loop sets. The task holds it too, because the caller may give up.
template <class Answer>
class Awaited {
 public:
  void Set(absl::StatusOr<Answer> answer) {
    {
      const MutexLock lock(mu_);
      answer_ = std::move(answer);
    }
    changed_.NotifyAll();
  }
  absl::StatusOr<Answer> Wait() {
    MutexLock lock(mu_);
    const bool set = changed_.WaitFor(mu_, std::chrono::seconds(limits::kPageSeconds.value),
                                      [this]() REQUIRES(mu_) { return answer_.has_value(); });
    if (set) return *std::move(answer_);
    return absl::UnavailableError(
        absl::StrCat("no answer within ", limits::kPageSeconds.value, " s"));
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::optional<absl::StatusOr<Answer>> answer_ GUARDED_BY(mu_);
};

std::vector<v1alpha1::StepReport> Parsed(const std::vector<std::string>& steps) {
  std::vector<v1alpha1::StepReport> reports(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) reports[i].ParseFromString(steps[i]);
  return reports;
}

}  // namespace

Reader::Reader(Hub& hub)
    : Reader(std::make_shared<Door>(),
             {.role = tls::Role::kUser,
              .name = kLocalUser,
              .uri = "",
              .grants = {{tls::UserRole::kViewer, ""}}},
             {}) {
  const MutexLock lock(door_->mu);
  door_->hub = &hub;
}

void Reader::Close() {
  const MutexLock lock(door_->mu);
  door_->hub = nullptr;
}

absl::StatusOr<Reader> Reader::For(const tls::Shown& shown) const {
  const MutexLock lock(door_->mu);
  if (door_->hub == nullptr) return absl::UnavailableError("the coordinator is shutting down");
  const tls::Callers* const callers = door_->hub->callers();
  if (callers == nullptr) return absl::UnauthenticatedError("found a caller, expected none");
  ASSIGN_OR_RETURN(Principal caller, PrincipalOf(shown, *callers));
  RETURN_IF_ERROR(callers->Check(caller.credential));
  return Reader(door_, std::move(caller.identity), std::move(caller.credential));
}

absl::StatusOr<Call> Reader::As(const char* method) const {
  const Method& row = MethodNamed(method);
  RETURN_IF_ERROR(AuthorizeKind(row, user_));
  return Call{row, user_, credential_};
}

absl::Status Reader::Post(std::function<void(Hub&)> task, const char* name) const {
  const MutexLock lock(door_->mu);
  Hub* const hub = door_->hub;
  if (hub == nullptr) return absl::UnavailableError("the coordinator is shutting down");
  // A task runs only while the hub lives: the loop ends before it.
  hub->loop().Post([hub, task = std::move(task)] { task(*hub); }, name);
  return absl::OkStatus();
}

template <class Answer>
absl::StatusOr<Answer> Reader::Ask(
    const char* method, std::function<absl::Status(Hub&, const Call&, Answer*)> read) const {
  ASSIGN_OR_RETURN(Call call, As(method));
  const auto awaited = std::make_shared<Awaited<Answer>>();
  RETURN_IF_ERROR(Post(
      [awaited, call = std::move(call), read = std::move(read)](Hub& hub) {
        Answer answer;
        const absl::Status status = read(hub, call, &answer);
        awaited->Set(status.ok() ? absl::StatusOr<Answer>(std::move(answer)) : status);
      },
      method));
  return awaited->Wait();
}

absl::StatusOr<v1alpha1::ListJobsResponse> Reader::ListJobs(
    const v1alpha1::ListJobsRequest& request) {
  return Ask<v1alpha1::ListJobsResponse>(
      "ListJobs", [request](Hub& hub, const Call& call, v1alpha1::ListJobsResponse* response) {
        return service::ListJobs(hub, call, request, response);
      });
}

absl::StatusOr<v1alpha1::Job> Reader::GetJob(const v1alpha1::GetJobRequest& request) {
  return Ask<v1alpha1::Job>(
      "GetJob", [request](Hub& hub, const Call& call, v1alpha1::Job* job) -> absl::Status {
        ASSIGN_OR_RETURN(const coordinator::JobRecord record, LookUpJob(hub, call, request.name()));
        *job = hub.Describe(record);
        return absl::OkStatus();
      });
}

absl::StatusOr<v1alpha1::ListJobEventsResponse> Reader::ListJobEvents(
    const v1alpha1::ListJobEventsRequest& request) {
  return Ask<v1alpha1::ListJobEventsResponse>(
      "ListJobEvents",
      [request](Hub& hub, const Call& call, v1alpha1::ListJobEventsResponse* response) {
        return service::ListJobEvents(hub, call, request, response);
      });
}

absl::StatusOr<v1alpha1::ListWorkersResponse> Reader::ListWorkers(
    const v1alpha1::ListWorkersRequest& request) {
  return Ask<v1alpha1::ListWorkersResponse>(
      "ListWorkers", [request](Hub& hub, const Call&, v1alpha1::ListWorkersResponse* response) {
        return service::ListWorkers(hub, request, response);
      });
}

absl::StatusOr<JobSteps> Reader::Steps(const v1alpha1::GetJobRequest& request) {
  struct Serialised {
    std::vector<std::string> curve, newest;
  };
  const auto read = [request](Hub& hub, const Call& call, Serialised* out) -> absl::Status {
    ASSIGN_OR_RETURN(const coordinator::JobRecord record, LookUpJob(hub, call, request.name()));
    const JobHistory& history = hub.HistoryOf(record);
    out->curve = history.Curve(limits::kPageCurveSteps.value);
    out->newest = history.Newest(kNewestSteps);
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const Serialised steps, Ask<Serialised>("WatchJob", read));
  return JobSteps{Parsed(steps.curve), Parsed(steps.newest)};
}

absl::StatusOr<TraceRecords> Reader::Trace(const TraceQuery& query) {
  ASSIGN_OR_RETURN(Call call, As("StreamJobTrace"));
  const auto awaited = std::make_shared<Awaited<TraceRecords>>();
  RETURN_IF_ERROR(Post(
      [awaited, query, call = std::move(call)](Hub& hub) {
        ReadTrace(hub, call, query, [awaited](absl::StatusOr<TraceRecords> records) {
          awaited->Set(std::move(records));
        });
      },
      "StreamJobTrace"));
  return awaited->Wait();
}

}  // namespace stretto::service
