// SPDX-License-Identifier: Apache-2.0

// Wraps the generated stubs. Each call first lets the channel connect, then gets a context with a
// deadline, which an interrupt cancels. Its gRPC status becomes an absl::Status that keeps the
// details of the error. With several addresses, a call goes to one after the other until one leads.

#include "coordinator/cli/client/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/base/deadline.h"
#include "proto/base/status_macros.h"
#include "proto/tls/credentials.h"
#include "proto/tls/token.h"
#include "stretto/v1alpha1/job.grpc.pb.h"

namespace stretto::cli {
namespace {

constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kBadRequest[] = "type.googleapis.com/google.rpc.BadRequest";

absl::Status ToStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status out(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status rich;
  if (!status.error_details().empty() && rich.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& detail : rich.details()) {
      out.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return out;
}

template <class Message>
Message Payload(const absl::Status& status, const char* url) {
  Message message;
  if (const auto payload = status.GetPayload(url)) message.ParseFromString(std::string(*payload));
  return message;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, const tls::Files& files) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // The least time that one attempt has, handshakes included.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  return grpc::CreateCustomChannel(
      address, files.empty() ? grpc::InsecureChannelCredentials() : tls::ChannelCredentials(files),
      arguments);
}

// gRPC takes wall time, and turns it into monotonic time at once.
std::chrono::system_clock::time_point After(absl::Duration duration) {
  return absl::ToChronoTime(absl::Now() + duration);
}

// Returns whether the channel is connected, once it is or two attempts have failed or `deadline`
// has come; the call that comes next reports why. gRPC 1.51 reads the errno of connect() after it
// has allocated memory, so that one attempt can fail although the coordinator listens: glibc, when
// it makes another heap, looks for /sys/devices/system/cpu, which a container or chroot may lack. A
// call itself is not repeated, because the coordinator might already have carried it out.
bool AwaitConnection(grpc::Channel& channel, Deadline deadline, const Interrupt& interrupt) {
  constexpr absl::Duration kGlance = absl::Milliseconds(50);  // between looks at `interrupt`
  constexpr absl::Duration kSecondAttempt = absl::Milliseconds(300);
  bool failed = false;
  while (!interrupt.raised() && !deadline.over()) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_SHUTDOWN) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && !failed) {
      failed = true;
      deadline = deadline.AtMost(kSecondAttempt);
    }
    channel.WaitForStateChange(state, After(std::min(deadline.Left(), kGlance)));
  }
  return false;
}

// Adds the token of `files`, if there is one, as it is now. A channel of such files has TLS, and
// the server has proved that it is a coordinator before a call is sent.
absl::Status AddToken(const tls::Files& files, grpc::ClientContext& context) {
  if (files.token.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string token, tls::ReadTokenFile(tls::kTokenFlag, files.token));
  context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  return absl::OkStatus();
}

// A coordinator that waits to take over carries out nothing.
bool IsStandby(const absl::Status& status) { return ErrorReason(status) == "STANDBY"; }

}  // namespace

// The connection to one address.
struct Client::Peer {
  explicit Peer(std::shared_ptr<grpc::Channel> connection)
      : channel(std::move(connection)),
        jobs(v1alpha1::JobService::NewStub(channel)),
        cluster(v1alpha1::ClusterService::NewStub(channel)) {}

  const std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1alpha1::JobService::Stub> jobs;
  std::unique_ptr<v1alpha1::ClusterService::Stub> cluster;
};

struct Client::Peers {
  Peers(const std::string& addresses, const tls::Files& files) {
    for (const absl::string_view address : absl::StrSplit(addresses, ',')) {
      all.push_back(std::make_unique<Peer>(MakeChannel(std::string(address), files)));
    }
  }

  // Makes `attempt` at the address that served last, if there are several then at the next ones,
  // until one is connected and leads, or `deadline` has come.
  template <class Attempt>
  static absl::Status InTurn(Client& client, const Deadline& deadline, const Attempt& attempt) {
    // With one of several, which continues to connect and has another turn.
    constexpr absl::Duration kPatience = absl::Milliseconds(500);
    constexpr absl::Duration kRound = absl::Milliseconds(200);
    Peers& peers = *client.peers_;
    if (peers.all.size() == 1) {
      AwaitConnection(*peers.all[0]->channel, deadline, client.interrupt_);
      return attempt(*peers.all[0]);
    }
    absl::Status refused = absl::UnavailableError("none of them answers");
    for (size_t tried = 1;; ++tried) {
      size_t at = peers.current;
      if (AwaitConnection(*peers.all[at]->channel, deadline.AtMost(kPatience), client.interrupt_)) {
        const absl::Status status = attempt(*peers.all[at]);
        if (!IsStandby(status)) return status;
        refused = status;
      }
      peers.current.compare_exchange_strong(at, (at + 1) % peers.all.size());
      if (tried % peers.all.size() == 0) client.interrupt_.WaitFor(kRound);
      if (client.interrupt_.raised()) return absl::CancelledError("interrupted");
      if (deadline.over()) return refused;
    }
  }

  template <class Response, class Stub, class Method, class Request>
  static absl::StatusOr<Response> Call(Client& client, std::unique_ptr<Stub> Peer::*stub,
                                       Method method, const Request& request) {
    const Deadline deadline(client.call_deadline_);
    Response response;
    const absl::Status status = InTurn(client, deadline, [&](Peer& peer) -> absl::Status {
      grpc::ClientContext context;
      RETURN_IF_ERROR(AddToken(client.files_, context));
      context.set_deadline(After(deadline.Left()));
      Interrupt::OnRaise cancel(client.interrupt_, [&context] { context.TryCancel(); });
      return ToStatus(((*(peer.*stub)).*method)(&context, request, &response));
    });
    if (!status.ok()) return status;
    return response;
  }

  template <class Response, class Method, class Request>
  static absl::Status Stream(Client& client, Method method, const Request& request,
                             const std::function<bool(const Response&)>& handler) {
    return InTurn(client, Deadline(client.call_deadline_), [&](Peer& peer) -> absl::Status {
      grpc::ClientContext context;
      RETURN_IF_ERROR(AddToken(client.files_, context));
      context.set_deadline(After(kStreamDeadline));
      Interrupt::OnRaise cancel(client.interrupt_, [&context] { context.TryCancel(); });
      auto reader = ((*peer.jobs).*method)(&context, request);
      Response response;
      bool enough = false;
      while (!enough && reader->Read(&response)) enough = !handler(response);
      if (enough) context.TryCancel();
      const grpc::Status status = reader->Finish();
      return enough ? absl::OkStatus() : ToStatus(status);
    });
  }

  std::vector<std::unique_ptr<Peer>> all;
  std::atomic<size_t> current = 0;
};

Client::Client(std::string address, tls::Files files, Interrupt& interrupt)
    : address_(std::move(address)),
      files_(std::move(files)),
      interrupt_(interrupt),
      peers_(std::make_shared<Peers>(address_, files_)) {}

Client::Client(const Client& other, Interrupt& interrupt)
    : address_(other.address_), files_(other.files_), interrupt_(interrupt), peers_(other.peers_) {}

std::string Client::ExplainFailure() const {
  const std::vector<std::string> addresses = absl::StrSplit(address_, ',');
  return tls::ExplainFailure(addresses[peers_->current], files_);
}

Client::~Client() = default;

absl::StatusOr<v1alpha1::Job> Client::CreateJob(const v1alpha1::CreateJobRequest& request) {
  return Peers::Call<v1alpha1::Job>(*this, &Peer::jobs, &v1alpha1::JobService::Stub::CreateJob,
                                    request);
}

absl::StatusOr<v1alpha1::Job> Client::GetJob(const v1alpha1::GetJobRequest& request) {
  return Peers::Call<v1alpha1::Job>(*this, &Peer::jobs, &v1alpha1::JobService::Stub::GetJob,
                                    request);
}

absl::StatusOr<v1alpha1::ListJobsResponse> Client::ListJobs(
    const v1alpha1::ListJobsRequest& request) {
  return Peers::Call<v1alpha1::ListJobsResponse>(*this, &Peer::jobs,
                                                 &v1alpha1::JobService::Stub::ListJobs, request);
}

absl::StatusOr<v1alpha1::Job> Client::CancelJob(const v1alpha1::CancelJobRequest& request) {
  return Peers::Call<v1alpha1::Job>(*this, &Peer::jobs, &v1alpha1::JobService::Stub::CancelJob,
                                    request);
}

absl::StatusOr<v1alpha1::Job> Client::CheckpointJob(const v1alpha1::CheckpointJobRequest& request) {
  return Peers::Call<v1alpha1::Job>(*this, &Peer::jobs, &v1alpha1::JobService::Stub::CheckpointJob,
                                    request);
}

absl::StatusOr<v1alpha1::Job> Client::SuspendJob(const v1alpha1::SuspendJobRequest& request) {
  return Peers::Call<v1alpha1::Job>(*this, &Peer::jobs, &v1alpha1::JobService::Stub::SuspendJob,
                                    request);
}

absl::StatusOr<v1alpha1::Job> Client::ResumeJob(const v1alpha1::ResumeJobRequest& request) {
  return Peers::Call<v1alpha1::Job>(*this, &Peer::jobs, &v1alpha1::JobService::Stub::ResumeJob,
                                    request);
}

absl::StatusOr<v1alpha1::Worker> Client::CordonWorker(
    const v1alpha1::CordonWorkerRequest& request) {
  return Peers::Call<v1alpha1::Worker>(*this, &Peer::cluster,
                                       &v1alpha1::ClusterService::Stub::CordonWorker, request);
}

absl::StatusOr<v1alpha1::Worker> Client::UncordonWorker(
    const v1alpha1::UncordonWorkerRequest& request) {
  return Peers::Call<v1alpha1::Worker>(*this, &Peer::cluster,
                                       &v1alpha1::ClusterService::Stub::UncordonWorker, request);
}

absl::StatusOr<v1alpha1::ListJobEventsResponse> Client::ListJobEvents(
    const v1alpha1::ListJobEventsRequest& request) {
  return Peers::Call<v1alpha1::ListJobEventsResponse>(
      *this, &Peer::jobs, &v1alpha1::JobService::Stub::ListJobEvents, request);
}

absl::StatusOr<v1alpha1::Job> Client::DeleteJob(const v1alpha1::DeleteJobRequest& request) {
  return Peers::Call<v1alpha1::Job>(*this, &Peer::jobs, &v1alpha1::JobService::Stub::DeleteJob,
                                    request);
}

absl::StatusOr<v1alpha1::Worker> Client::ForgetWorker(
    const v1alpha1::ForgetWorkerRequest& request) {
  return Peers::Call<v1alpha1::Worker>(*this, &Peer::cluster,
                                       &v1alpha1::ClusterService::Stub::ForgetWorker, request);
}

absl::StatusOr<v1alpha1::Worker> Client::GetWorker(const v1alpha1::GetWorkerRequest& request) {
  return Peers::Call<v1alpha1::Worker>(*this, &Peer::cluster,
                                       &v1alpha1::ClusterService::Stub::GetWorker, request);
}

absl::StatusOr<v1alpha1::ListWorkersResponse> Client::ListWorkers(
    const v1alpha1::ListWorkersRequest& request) {
  return Peers::Call<v1alpha1::ListWorkersResponse>(
      *this, &Peer::cluster, &v1alpha1::ClusterService::Stub::ListWorkers, request);
}

absl::Status Client::WatchJob(
    const v1alpha1::WatchJobRequest& request,
    const std::function<bool(const v1alpha1::WatchJobResponse&)>& handler) {
  return Peers::Stream<v1alpha1::WatchJobResponse>(*this, &v1alpha1::JobService::Stub::WatchJob,
                                                   request, handler);
}

absl::Status Client::StreamJobLogs(
    const v1alpha1::StreamJobLogsRequest& request,
    const std::function<bool(const v1alpha1::StreamJobLogsResponse&)>& handler) {
  return Peers::Stream<v1alpha1::StreamJobLogsResponse>(
      *this, &v1alpha1::JobService::Stub::StreamJobLogs, request, handler);
}

absl::Status Client::StreamJobTrace(
    const v1alpha1::StreamJobTraceRequest& request,
    const std::function<bool(const v1alpha1::StreamJobTraceResponse&)>& handler) {
  return Peers::Stream<v1alpha1::StreamJobTraceResponse>(
      *this, &v1alpha1::JobService::Stub::StreamJobTrace, request, handler);
}

std::vector<FieldViolation> FieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  const auto bad_request = Payload<google::rpc::BadRequest>(status, kBadRequest);
  for (const auto& violation : bad_request.field_violations()) {
    violations.push_back({violation.field(), violation.description()});
  }
  return violations;
}

std::string ErrorReason(const absl::Status& status) {
  return Payload<google::rpc::ErrorInfo>(status, kErrorInfo).reason();
}

std::string ErrorDetail(const absl::Status& status, const std::string& key) {
  const auto info = Payload<google::rpc::ErrorInfo>(status, kErrorInfo);
  for (const auto& entry : info.metadata()) {
    if (entry.key() == key) return entry.value();
  }
  return "";
}

}  // namespace stretto::cli
