// SPDX-License-Identifier: Apache-2.0
#pragma once
// Calls of ranks to the rendezvous: whether a caller may make them, and one that waits for its key.
// Internal to worker_service.cc.

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/hub.h"
#include "coordinator/service/unary_call.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"
#include "stretto/v1alpha1/worker.pb.h"

namespace stretto::service {

// The node that a caller speaks for; empty: any, because its certificate names none or there is no
// TLS.
inline std::string NodeOf(const tls::Identity& caller) {
  return caller.role == tls::Role::kWorker ? caller.name : "";
}

// `node`: as NodeOf the caller.
inline absl::Status CheckAttempt(Hub& hub, const std::string& node, const std::string& uid,
                                 int64_t epoch) {
  if (static_cast<int64_t>(uid.size()) > limits::kWorkerNameBytes.value || !IsPrintable(uid)) {
    return FieldError("job_uid",
                      absl::StrCat("found ", Quoted(uid), ", expected the uid of a job"));
  }
  const absl::Status status = hub.driver().Read(
      [&](const coordinator::Core& core) { return core.CheckAttempt(uid, Epoch(epoch), node); });
  if (absl::IsPermissionDenied(status)) {
    return WithReason(status, "NOT_YOUR_JOB", {{"worker", node}, {"job_uid", uid}});
  }
  if (!absl::IsAborted(status)) return status;
  return WithReason(status, "STALE_EPOCH", {{"job_uid", uid}, {"epoch", absl::StrCat(epoch)}});
}

// A StoreGet, which may wait for its key. gRPC cancels it at its deadline.
class StoreGetCall final : public grpc::ServerUnaryReactor,
                           public Stream,
                           public std::enable_shared_from_this<StoreGetCall> {
 public:
  StoreGetCall(Hub& hub, Call call, const v1alpha1::StoreGetRequest& request,
               v1alpha1::StoreGetResponse* response)
      : hub_(hub), call_(std::move(call)), request_(request), response_(response) {}

  static StoreGetCall* Launch(Hub& hub, Call caller, const v1alpha1::StoreGetRequest& request,
                              v1alpha1::StoreGetResponse* response) {
    auto call = std::make_shared<StoreGetCall>(hub, std::move(caller), request, response);
    call->self_ = call;
    hub.loop().Post([call] { call->Begin(); });
    return call.get();
  }

  const tls::Credential& credential() const override { return call_.credential; }
  void Close(const absl::Status& status) override {
    if (finished_) return;
    finished_ = true;
    hub_.rendezvous().Forget(ticket_);
    Finish(ToGrpcStatus(status));
  }
  void OnCancel() override {
    hub_.loop().Post([self = shared_from_this()] {
      self->Close(absl::DeadlineExceededError(
          absl::StrCat("key ", Quoted(self->request_.key()), " was not set in time")));
    });
  }
  void OnDone() override {
    hub_.loop().Post([self = shared_from_this()] { self->hub_.Remove(self.get()); });
    self_.reset();
  }

 private:
  void Begin() {
    hub_.Add(this);
    const absl::Status current =
        CheckAttempt(hub_, NodeOf(call_.caller), request_.job_uid(), request_.epoch());
    if (!current.ok()) return Close(current);
    if (const absl::Status key = CheckStoreKey(request_.key()); !key.ok()) return Close(key);
    ticket_ = hub_.rendezvous().Get({request_.job_uid(), request_.epoch()}, request_.key(),
                                    [this](const absl::StatusOr<std::string>& value) {
                                      if (finished_) return;
                                      if (value.ok()) response_->set_value(*value);
                                      finished_ = true;
                                      Finish(ToGrpcStatus(value.status()));
                                    });
  }

  Hub& hub_;
  const Call call_;
  const v1alpha1::StoreGetRequest request_;
  v1alpha1::StoreGetResponse* response_;  // until Finish
  std::shared_ptr<StoreGetCall> self_;    // until OnDone
  int64_t ticket_ = 0;
  bool finished_ = false;
};

}  // namespace stretto::service
