// SPDX-License-Identifier: Apache-2.0

// Unary calls of users about workers, on the loop. The cost of a page depends on its length alone.

#include "coordinator/service/cluster_service.h"

#include <grpcpp/grpcpp.h>

#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/service/convert.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/unary_call.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "stretto/v1alpha1/job.grpc.pb.h"

namespace stretto::service {
namespace {

using coordinator::Core;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

constexpr size_t kMaxReasonBytes = limits::kCordonReasonBytes.value;

v1alpha1::Worker DescribeWorker(const Core& core, const coordinator::Worker& worker) {
  const std::string& id = worker.record.id;
  return ToProto(worker, core.FreeSlots(id), core.JobsOn(id));
}

absl::Status GetWorker(Hub& hub, const std::string& name, v1alpha1::Worker* out) {
  ASSIGN_OR_RETURN(const std::string id, ParseName("workers", name));
  const bool found = hub.driver().Read([&](const Core& core) {
    const coordinator::Worker* worker = core.FindWorker(id);
    if (worker != nullptr) *out = DescribeWorker(core, *worker);
    return worker != nullptr;
  });
  if (found) return absl::OkStatus();
  return WithReason(absl::NotFoundError(absl::StrCat("no worker \"", id, "\"")), "WORKER_NOT_FOUND",
                    {{"worker", id}});
}

// Submits an event that concerns this worker, and shows the worker afterwards.
absl::Status ChangeWorker(Hub& hub, const std::string& name, const coordinator::Event& event,
                          v1alpha1::Worker* out) {
  const absl::Status status = hub.Submit(event).status;
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return GetWorker(hub, name, out);
}

absl::Status Cordon(Hub& hub, const v1alpha1::CordonWorkerRequest& request, v1alpha1::Worker* out) {
  ASSIGN_OR_RETURN(const std::string id, ParseName("workers", request.name()));
  if (request.reason().size() > kMaxReasonBytes) {
    return FieldError("reason", absl::StrCat("found ", request.reason().size(),
                                             " bytes, expected at most ", kMaxReasonBytes));
  }
  if (!IsPrintable(request.reason())) {
    return FieldError("reason", absl::StrCat("found ", Quoted(request.reason()),
                                             ", expected no control characters"));
  }
  const std::string reason = request.reason().empty() ? "by request" : request.reason();
  return ChangeWorker(
      hub, request.name(),
      coordinator::CordonWorker{.id = id, .reason = reason, .drain = request.drain()}, out);
}

absl::Status Uncordon(Hub& hub, const std::string& name, v1alpha1::Worker* out) {
  ASSIGN_OR_RETURN(const std::string id, ParseName("workers", name));
  return ChangeWorker(hub, name, coordinator::UncordonWorker{id}, out);
}

absl::Status Forget(Hub& hub, const std::string& name, v1alpha1::Worker* out) {
  RETURN_IF_ERROR(GetWorker(hub, name, out));
  ASSIGN_OR_RETURN(const std::string id, ParseName("workers", name));
  const absl::Status status = hub.Submit(coordinator::ForgetWorker{id}).status;
  if (!absl::IsFailedPrecondition(status)) return status;
  return WithReason(status, "WORKER_IN_USE", {{"worker", id}});
}

class ClusterServiceImpl final : public v1alpha1::ClusterService::CallbackService {
 public:
  explicit ClusterServiceImpl(Hub& hub) : hub_(hub) {}

  ServerUnaryReactor* GetWorker(CallbackServerContext* context,
                                const v1alpha1::GetWorkerRequest* request,
                                v1alpha1::Worker* worker) override {
    return OnLoop(hub_, context, {}, [this, request, worker](const Call&) {
      return service::GetWorker(hub_, request->name(), worker);
    });
  }
  ServerUnaryReactor* ListWorkers(CallbackServerContext* context,
                                  const v1alpha1::ListWorkersRequest* request,
                                  v1alpha1::ListWorkersResponse* response) override {
    return OnLoop(hub_, context, {}, [this, request, response](const Call&) {
      return service::ListWorkers(hub_, *request, response);
    });
  }
  ServerUnaryReactor* CordonWorker(CallbackServerContext* context,
                                   const v1alpha1::CordonWorkerRequest* request,
                                   v1alpha1::Worker* worker) override {
    return OnLoop(hub_, context, {request->name()},
                  [this, request, worker](const Call&) { return Cordon(hub_, *request, worker); });
  }
  ServerUnaryReactor* UncordonWorker(CallbackServerContext* context,
                                     const v1alpha1::UncordonWorkerRequest* request,
                                     v1alpha1::Worker* worker) override {
    return OnLoop(hub_, context, {request->name()}, [this, request, worker](const Call&) {
      return Uncordon(hub_, request->name(), worker);
    });
  }
  ServerUnaryReactor* ForgetWorker(CallbackServerContext* context,
                                   const v1alpha1::ForgetWorkerRequest* request,
                                   v1alpha1::Worker* worker) override {
    return OnLoop(hub_, context, {request->name()}, [this, request, worker](const Call&) {
      return Forget(hub_, request->name(), worker);
    });
  }

 private:
  Hub& hub_;
};

}  // namespace

absl::Status ListWorkers(Hub& hub, const v1alpha1::ListWorkersRequest& request,
                         v1alpha1::ListWorkersResponse* response) {
  ASSIGN_OR_RETURN(const int page_size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const std::string last, ReadToken("workers", request.page_token()));
  hub.driver().Read([&](const Core& core) {
    const auto& workers = core.workers();
    for (auto it = workers.upper_bound(last); it != workers.end(); ++it) {
      if (response->workers_size() == page_size) {
        response->set_next_page_token(MakeToken("workers", std::prev(it)->first));
        break;
      }
      *response->add_workers() = DescribeWorker(core, it->second);
    }
    return 0;
  });
  return absl::OkStatus();
}

std::unique_ptr<grpc::Service> NewClusterService(Hub& hub) {
  return std::make_unique<ClusterServiceImpl>(hub);
}

}  // namespace stretto::service
