// SPDX-License-Identifier: Apache-2.0

// The reading thread connects, registers, and reads until the stream ends; a writer thread per
// connection sends what its SendOrder says. Both share it and flags under one mutex and wake each
// other through one condition. Run repeats this until the link is stopped or permanently refused.

#include "worker/daemon/coordinator_link.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/time_util.h"
#include "proto/base/clock.h"
#include "spdlog/spdlog.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"
#include "worker/daemon/session/send_order.h"

namespace stretto::daemon {
namespace {

using google::protobuf::util::TimeUtil;
using stretto::v1alpha1::CoordinatorMessage;
using stretto::v1alpha1::WorkerMessage;
using stretto::v1alpha1::WorkerService;

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::Duration Now() { return Clock::Real().Monotonic(); }

}  // namespace

struct CoordinatorLink::Connection {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<WorkerMessage, CoordinatorMessage>> stream;
  // Guarded by CoordinatorLink::mu_.
  SendOrder order{Now()};
  bool ended = false;
};

CoordinatorLink::CoordinatorLink(CoordinatorChannels& channels, SessionHandler& handler,
                                 uint64_t jitter_seed, std::function<std::string()> explain)
    : channels_(channels),
      handler_(handler),
      explain_(std::move(explain)),
      reconnect_(jitter_seed, channels.size()),
      thread_([this] { Run(); }) {}

CoordinatorLink::~CoordinatorLink() { Stop(); }

void CoordinatorLink::Wake() {
  {
    const MutexLock lock(mu_);
    if (connection_ != nullptr) connection_->order.Wake();
  }
  changed_.NotifyAll();
}

void CoordinatorLink::Stop() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
    if (connection_ != nullptr) connection_->context.TryCancel();
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

bool CoordinatorLink::Pause(absl::Duration pause) {
  const MutexLock lock(mu_);
  changed_.WaitFor(mu_, absl::ToChronoMilliseconds(pause),
                   [this]() REQUIRES(mu_) { return stop_; });
  return !stop_;
}

void CoordinatorLink::Run() {
  while (true) {
    bool registered = false;
    const absl::Status status = Connect(&registered);
    {
      const MutexLock lock(mu_);
      if (stop_) return;
    }
    const Reconnect::Next next = reconnect_.Ended(status, registered);
    if (next.refused) {
      handler_.OnRefused(status);
      return;
    }
    if (next.tell) {
      const std::string more = absl::IsUnavailable(status) ? explain_() : "";
      spdlog::warn("no session with the coordinator, trying again: {}{}{}", status.ToString(),
                   more.empty() ? "" : "; ", more);
    }
    if (next.renew) channels_.Renew();
    channels_.Next();
    if (!Pause(next.pause)) return;
  }
}

absl::Status CoordinatorLink::Connect(bool* registered) {
  Connection connection;
  const std::unique_ptr<WorkerService::Stub> stub = WorkerService::NewStub(channels_.Current());
  {
    const MutexLock lock(mu_);
    if (stop_) return absl::CancelledError("stopping");
    connection_ = &connection;
  }
  connection.stream = stub->Session(&connection.context);
  WorkerMessage hello;
  *hello.mutable_register_() = handler_.Registration();
  connection.stream->Write(hello);  // Finish reports a failure
  {
    const MutexLock lock(mu_);
    connection.order = SendOrder(Now());  // connecting takes its own time
  }
  std::thread writer([this, &connection] { Write(connection); });

  CoordinatorMessage message;
  while (connection.stream->Read(&message)) {
    if (*registered) {
      handler_.OnMessage(message);
      continue;
    }
    if (!message.has_registered()) {
      connection.context.TryCancel();
      break;
    }
    *registered = true;
    handler_.OnRegistered(message.registered());
    const int64_t interval =
        TimeUtil::DurationToMilliseconds(message.registered().heartbeat_interval());
    {
      const MutexLock lock(mu_);
      connection.order.Registered(Now(), absl::Milliseconds(interval));
    }
    changed_.NotifyAll();
  }
  {
    const MutexLock lock(mu_);
    connection.ended = true;
  }
  changed_.NotifyAll();
  writer.join();  // returns soon: a write on an ended stream fails at once
  const grpc::Status status = connection.stream->Finish();
  {
    const MutexLock lock(mu_);
    connection_ = nullptr;
  }
  if (*registered) handler_.OnDisconnected();
  return status.ok() ? absl::UnavailableError("the coordinator ended the session")
                     : FromGrpc(status);
}

void CoordinatorLink::Write(Connection& connection) {
  MutexLock lock(mu_);
  while (!connection.ended) {
    const SendOrder::Turn turn = connection.order.Next(Now());
    if (turn == SendOrder::Turn::kGiveUp) return connection.context.TryCancel();
    if (turn == SendOrder::Turn::kWait) {
      const absl::Duration wait = connection.order.WakeAt() - Now();
      changed_.WaitFor(mu_, absl::ToChronoNanoseconds(wait), [&]() REQUIRES(mu_) {
        return connection.ended || connection.order.Next(Now()) != SendOrder::Turn::kWait;
      });
      continue;
    }
    const bool beat = turn == SendOrder::Turn::kHeartbeat;
    if (!beat) connection.order.Asked();
    lock.Unlock();
    std::optional<WorkerMessage> message;
    if (beat) {
      message.emplace();
      *message->mutable_heartbeat() = handler_.Beat();
      *message->mutable_heartbeat()->mutable_time() = TimeUtil::GetCurrentTime();
    } else {
      message = handler_.NextMessage();
    }
    const bool open = !message.has_value() || connection.stream->Write(*message);
    lock.Lock();
    if (!open) return;
    if (beat) {
      connection.order.SentHeartbeat(Now());
    } else if (message.has_value()) {
      connection.order.Wake();
    }
  }
}

}  // namespace stretto::daemon
