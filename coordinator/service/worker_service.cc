// SPDX-License-Identifier: Apache-2.0

// Sessions of worker daemons and the rendezvous of ranks. A session reads one message, submits it
// and only then reads the next, so a worker cannot outrun the store. A message is noted and checked
// against its bounds on gRPC's thread, so that any message keeps its worker alive however long the
// loop is busy. Outgoing messages wait in a bounded queue. Acknowledgements are kept apart, only
// the newest per rank, because each one includes all earlier ones.

#include "coordinator/service/worker_service.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/convert.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/store_calls.h"
#include "coordinator/service/unary_call.h"
#include "proto/base/limits.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/base/version.h"
#include "proto/bounds/worker_bounds.h"
#include "stretto/v1alpha1/worker.grpc.pb.h"

namespace stretto::service {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;
using v1alpha1::CoordinatorMessage;
using v1alpha1::WorkerMessage;

constexpr absl::Duration kRegisterTimeout = absl::Seconds(limits::kRegisterSeconds.value);
constexpr absl::Duration kEndTimeout = absl::Seconds(5);
// Maximum number of messages that wait for a worker that does not read. When it is exceeded the
// session ends; the worker registers again and learns the rest.
constexpr size_t kMaxWaiting = limits::kSessionMessages.value;

// Sends acknowledgements only when nothing else waits. Its ownership is that of WriteStream.
class WorkerSession final : public grpc::ServerBidiReactor<WorkerMessage, CoordinatorMessage>,
                            public Stream,
                            public SessionPort,
                            public std::enable_shared_from_this<WorkerSession> {
 public:
  WorkerSession(Hub& hub, CallbackServerContext* context)
      : hub_(hub), context_(context), call_(CallOf(hub, context, "Session")) {}

  static WorkerSession* Launch(Hub& hub, CallbackServerContext* context) {
    auto session = std::make_shared<WorkerSession>(hub, context);
    session->self_ = session;
    hub.loop().Post([session] {
      session->hub_.Add(session.get());
      session->id_ = session->hub_.OpenSession(session.get());
      session->register_by_ = session->hub_.Monotonic() + kRegisterTimeout;
      session->Listen();
    });
    return session.get();
  }

  // ---- Stream, SessionPort
  const tls::Credential& credential() const override { return call_.credential; }
  void Close(const absl::Status& status) override { End(status); }
  void End(const absl::Status& status) override {
    if (ending_) return;
    ending_ = true;
    status_ = status;
    waiting_.clear();
    end_by_ = hub_.Monotonic() + kEndTimeout;
    if (!writing_) FinishNow();
  }
  void OnTick() override {
    // The pending write may wait for a peer that no longer exists.
    if (ending_ && !finished_ && hub_.Monotonic() > end_by_) context_->TryCancel();
    if (worker_.empty() && hub_.Monotonic() > register_by_) {
      End(absl::DeadlineExceededError(absl::StrCat("session: found no Register within ",
                                                   absl::FormatDuration(kRegisterTimeout))));
    }
  }
  const std::string& worker() const override { return worker_; }
  bool Heard() override { return std::exchange(heard_, false) || !listening_; }
  std::optional<absl::Duration> TakeArrival() override {
    const int64_t arrived = arrived_.exchange(kNone);
    if (arrived == kNone) return std::nullopt;
    return absl::Nanoseconds(arrived);
  }
  void Send(CoordinatorMessage message) override {
    if (ending_) return;
    if (message.has_ack()) {
      const auto& ack = message.ack();
      acks_[{ack.job_uid(), ack.epoch(), ack.rank()}] = ack.sequence();
    } else {
      waiting_.push_back(std::move(message));
      if (waiting_.size() > kMaxWaiting) {
        return End(absl::ResourceExhaustedError(absl::StrCat(
            "worker ", worker_, " does not read: ", kMaxWaiting, " messages wait for it")));
      }
    }
    Pump();
  }

  // ---- reactions
  void OnReadDone(bool ok) override {
    if (ok) {
      int64_t none = kNone;
      arrived_.compare_exchange_strong(none, absl::ToInt64Nanoseconds(hub_.Monotonic()));
      // Here, because it takes time that grows with the message, and the loop is everybody's.
      admitted_ = AdmitWorkerMessage(&message_);
    }
    listening_ = false;
    hub_.loop().Post([self = shared_from_this(), ok] {
      if (self->ending_) return;
      if (!ok) return self->End(absl::OkStatus());  // the worker has closed its side
      const absl::Status status = self->Handle(self->message_);
      if (!status.ok()) return self->End(status);
      if (!self->ending_) self->Listen();
    });
  }
  void OnWriteDone(bool ok) override {
    hub_.loop().Post([self = shared_from_this(), ok] {
      self->writing_ = false;
      if (self->ending_) {
        self->FinishNow();
      } else if (ok) {
        self->Pump();
      } else {
        self->End(absl::CancelledError("the worker has gone"));
      }
    });
  }
  void OnCancel() override {
    hub_.loop().Post(
        [self = shared_from_this()] { self->End(absl::CancelledError("the worker has gone")); });
  }
  void OnDone() override {
    hub_.loop().Post([self = shared_from_this()] {
      self->hub_.Remove(self.get());
      self->hub_.CloseSession(self->id_, self->worker_);
    });
    self_.reset();
  }

 private:
  void Listen() {
    listening_ = true;
    StartRead(&message_);
  }

  void FinishNow() {
    finished_ = true;
    Finish(ToGrpcStatus(status_));
  }

  absl::Status Handle(const WorkerMessage& message) {
    if (message.has_register_()) RETURN_IF_ERROR(CheckVersion(message.register_()));
    if (!admitted_.ok()) {
      spdlog::warn("session ended worker={}: {}", worker_.empty() ? "-" : worker_,
                   admitted_.ToString());
      return WithReason(absl::InvalidArgumentError(absl::StrCat(
                            worker_.empty() ? "session" : absl::StrCat("worker ", worker_), ": ",
                            admitted_.message())),
                        "OUT_OF_BOUNDS");
    }
    if (worker_.empty()) {
      if (message.has_register_()) return OnRegister(message.register_());
      return WithReason(
          absl::InvalidArgumentError("session: found another first message, expected Register"),
          "REGISTER_EXPECTED");
    }
    switch (message.message_case()) {
      case WorkerMessage::kHeartbeat:
        return hub_.Renew(FromProto(message.heartbeat(), worker_, id_), *this);
      case WorkerMessage::kReport:
        heard_ = true;
        return hub_.OnReport(message.report(), worker_, id_);
      case WorkerMessage::kPositions:
        heard_ = true;
        return hub_.Submit(FromProto(message.positions(), worker_, id_)).status;
      case WorkerMessage::kLogData:
        heard_ = true;
        hub_.OnLogData(message.log_data(), id_);
        return absl::OkStatus();
      case WorkerMessage::kInspection:
        heard_ = true;
        hub_.OnInspection(message.inspection(), id_);
        return absl::OkStatus();
      case WorkerMessage::kRegister:
      case WorkerMessage::MESSAGE_NOT_SET:
        break;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("worker ", worker_, ": found a message of kind ", message.message_case(),
                     ", expected Heartbeat, RankReport, RankPositions, LogData or Inspection"));
  }

  // First of all: the bounds are those of this version.
  static absl::Status CheckVersion(const v1alpha1::Register& message) {
    if (message.protocol_version() == kProtocolVersion) return absl::OkStatus();
    const std::string build = Escaped(Prefix(message.build(), limits::kWorkerNameBytes.value));
    return WithReason(absl::FailedPreconditionError(absl::StrCat(
                          "worker ", Quoted(message.worker_id()), ": found protocol version ",
                          message.protocol_version(), " (build ", build, "), expected ",
                          kProtocolVersion, " (coordinator build ", kBuildVersion, ")")),
                      "PROTOCOL_VERSION_MISMATCH",
                      {{"found", absl::StrCat(message.protocol_version())},
                       {"expected", absl::StrCat(kProtocolVersion)}});
  }

  absl::Status OnRegister(const v1alpha1::Register& message) {
    const absl::Status status = Enter(message);
    Audit(hub_, *context_, call_, {.name = absl::StrCat("workers/", message.worker_id())}, status);
    if (!status.ok()) return status;
    worker_ = message.worker_id();
    TakeArrival();  // its lease has begun
    return absl::OkStatus();
  }

  absl::Status Enter(const v1alpha1::Register& message) {
    // A certificate may carry a node's name; it then allows only that worker's id.
    const std::string node = NodeOf(call_.caller);
    if (!node.empty() && node != message.worker_id()) {
      return WithReason(
          absl::PermissionDeniedError(absl::StrCat(
              "worker ", Quoted(message.worker_id()), ": found the certificate of worker ",
              Quoted(node), ", expected one of this name or without a name")),
          "WORKER_NAME_MISMATCH",
          {{"worker", message.worker_id()}, {"certificate", call_.caller.uri}});
    }
    const absl::Status status = hub_.Submit(FromProto(message, id_)).status;
    if (absl::IsAlreadyExists(status)) {
      return WithReason(status, "WORKER_NAME_TAKEN", {{"worker", message.worker_id()}});
    }
    if (absl::IsPermissionDenied(status)) {
      return WithReason(status, "CLUSTER_MISMATCH", {{"worker", message.worker_id()}});
    }
    return status;
  }

  void Pump() {
    if (writing_ || ending_) return;
    if (!waiting_.empty()) {
      outgoing_ = std::move(waiting_.front());
      waiting_.pop_front();
    } else if (!acks_.empty()) {
      const auto& [rank, sequence] = *acks_.begin();
      outgoing_.Clear();
      auto* ack = outgoing_.mutable_ack();
      ack->set_job_uid(std::get<0>(rank));
      ack->set_epoch(std::get<1>(rank));
      ack->set_rank(std::get<2>(rank));
      ack->set_sequence(sequence);
      acks_.erase(acks_.begin());
    } else {
      return;
    }
    writing_ = true;
    StartWrite(&outgoing_);
  }

  Hub& hub_;
  CallbackServerContext* context_;       // until Finish
  std::shared_ptr<WorkerSession> self_;  // until OnDone
  const Call call_;
  int64_t id_ = 0;
  std::string worker_;                   // empty until registered
  absl::Duration register_by_;           // monotonic
  bool heard_ = false;                   // since the last tick
  std::atomic<bool> listening_ = false;  // not between the arrival of a message and its end
  // Monotonic nanoseconds: what TakeArrival returns.
  static constexpr int64_t kNone = INT64_MIN;
  std::atomic<int64_t> arrived_ = kNone;
  WorkerMessage message_;        // must stay unchanged while reading
  absl::Status admitted_;        // what AdmitWorkerMessage says of it
  CoordinatorMessage outgoing_;  // must stay unchanged while writing_
  std::deque<CoordinatorMessage> waiting_;
  std::map<std::tuple<std::string, int64_t, int32_t>, int64_t> acks_;  // newest of each rank
  bool writing_ = false;
  bool ending_ = false;
  bool finished_ = false;
  absl::Status status_;    // final status, once ending_
  absl::Duration end_by_;  // deadline of a write in progress, monotonic, once ending_
};

class WorkerServiceImpl final : public v1alpha1::WorkerService::CallbackService {
 public:
  explicit WorkerServiceImpl(Hub& hub) : hub_(hub) {}

  grpc::ServerBidiReactor<WorkerMessage, CoordinatorMessage>* Session(
      CallbackServerContext* context) override {
    return service::WorkerSession::Launch(hub_, context);
  }
  ServerUnaryReactor* StoreSet(CallbackServerContext* context,
                               const v1alpha1::StoreSetRequest* request,
                               v1alpha1::StoreSetResponse*) override {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    hub_.loop().Post([this, reactor, request, node = NodeOf(CallOf(hub_, context).caller)] {
      absl::Status status = CheckAttempt(hub_, node, request->job_uid(), request->epoch());
      if (status.ok()) {
        status = hub_.rendezvous().Set({request->job_uid(), request->epoch()}, request->key(),
                                       request->value());
      }
      reactor->Finish(ToGrpcStatus(status));
    });
    return reactor;
  }
  ServerUnaryReactor* StoreGet(CallbackServerContext* context,
                               const v1alpha1::StoreGetRequest* request,
                               v1alpha1::StoreGetResponse* response) override {
    return StoreGetCall::Launch(hub_, CallOf(hub_, context), *request, response);
  }

 private:
  Hub& hub_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewWorkerService(Hub& hub) {
  return std::make_unique<WorkerServiceImpl>(hub);
}

}  // namespace stretto::service
