// SPDX-License-Identifier: Apache-2.0
#pragma once
// Forwards a rendezvous call of a trainer to the coordinator, with the same deadline and the same
// answer. While the coordinator is unreachable, the call waits and is retried until the caller's
// deadline. Only sources that include grpcpp anyway include this.

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/deadline.h"
#include "proto/base/mutex.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"

namespace stretto::daemon {

// A server reactor that also makes the client call. It exists until both have ended.
template <class Request, class Response>
class StoreForward final : public grpc::ServerUnaryReactor {
 public:
  using Call = std::function<void(grpc::ClientContext*, const Request*, Response*,
                                  std::function<void(grpc::Status)>)>;

  StoreForward(const grpc::CallbackServerContext& caller, const Request& request,
               Response* response, Call call)
      : deadline_(TimeOf(caller)), request_(request), response_(response), call_(std::move(call)) {
    Try();
  }

  void OnCancel() override {
    const MutexLock lock(mu_);
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
    if (pause_ != nullptr) pause_->Cancel();
  }
  void OnDone() override { delete this; }

 private:
  static constexpr absl::Duration kLongest = absl::Minutes(10);  // for a caller without a deadline
  static constexpr std::chrono::milliseconds kPause{100};

  // gRPC has just computed the caller's deadline from the time that its call may take.
  static absl::Duration TimeOf(const grpc::CallbackServerContext& caller) {
    const auto left = caller.deadline() - std::chrono::system_clock::now();
    return std::min(absl::FromChrono(left), kLongest);
  }

  void Try() {
    grpc::ClientContext* context = nullptr;
    {
      const MutexLock lock(mu_);
      if (!cancelled_) {
        context_ = std::make_unique<grpc::ClientContext>();
        context_->set_deadline(absl::ToChronoTime(absl::Now() + deadline_.Left()));
        context = context_.get();
      }
    }
    if (context == nullptr) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled"));
    call_(context, &request_, response_, [this](grpc::Status status) { OnAnswer(status); });
  }

  void OnAnswer(const grpc::Status& status) {
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return Finish(status);
    // There is no connection, it broke during the call, or that coordinator does not lead: by now
    // there may be another one. The pause avoids a storm of calls.
    const MutexLock lock(mu_);
    pause_ = std::make_unique<grpc::Alarm>();
    pause_->Set(std::chrono::system_clock::now() + kPause, [this](bool) { Try(); });
  }

  const Deadline deadline_;
  const Request request_;
  Response* const response_;
  const Call call_;

  Mutex mu_;
  bool cancelled_ GUARDED_BY(mu_) = false;
  std::unique_ptr<grpc::ClientContext> context_ GUARDED_BY(mu_);
  // A new alarm each time, because the last one may still be in its callback.
  std::unique_ptr<grpc::Alarm> pause_ GUARDED_BY(mu_);
};

}  // namespace stretto::daemon
