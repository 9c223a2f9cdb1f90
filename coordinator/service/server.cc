// SPDX-License-Identifier: Apache-2.0

// Assembles the coordinator: store, core, driver, hub and loop, then the gRPC server in front of
// them with TLS and authorization, limits, health and reflection, and an interceptor that counts
// and times every call. Refuses an address beyond loopback without TLS. Shutdown closes the streams
// on the loop while the server waits for the calls in progress, and ends the loop last.

#include "coordinator/service/server.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_interceptor.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/build_server.h"
#include "coordinator/service/cluster_service.h"
#include "coordinator/service/cluster_state.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/hub.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/loop.h"
#include "coordinator/service/reader.h"
#include "coordinator/service/validate_request.h"
#include "coordinator/service/worker_service.h"
#include "proto/base/address.h"
#include "proto/base/line_rate.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "proto/tls/callers.h"
#include "proto/tls/credentials.h"
#include "proto/tls/revocation.h"
#include "proto/tls/tokens.h"

namespace stretto::service {
namespace {

constexpr const char* kServices[] = {"stretto.v1alpha1.JobService",
                                     "stretto.v1alpha1.ClusterService",
                                     "stretto.v1alpha1.WorkerService"};

// Returns "stretto.v1alpha1.JobService/GetJob", or "other": callers must not be able to create
// label values.
std::string MethodLabel(absl::string_view path) {
  absl::ConsumePrefix(&path, "/");
  const std::string name = absl::StrReplaceAll(path, {{"/", "."}});
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  return pool->FindMethodByName(name) != nullptr ? std::string(path) : "other";
}

// Counts and times one call; a call that ended without a status was cancelled.
class CallMeter final : public grpc::experimental::Interceptor {
 public:
  CallMeter(telemetry::Telemetry& telemetry, const Clock& clock, const char* method)
      : telemetry_(telemetry),
        clock_(clock),
        method_(MethodLabel(method)),
        start_(clock.Monotonic()) {}
  ~CallMeter() override {
    telemetry_.RpcEnded(method_, absl::StatusCodeToString(code_), clock_.Monotonic() - start_);
  }
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      code_ = static_cast<absl::StatusCode>(methods->GetSendStatus().error_code());
    }
    methods->Proceed();
  }

 private:
  telemetry::Telemetry& telemetry_;
  const Clock& clock_;
  const std::string method_;
  const absl::Duration start_;
  absl::StatusCode code_ = absl::StatusCode::kCancelled;
};

class CallMeterFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  CallMeterFactory(telemetry::Telemetry& telemetry, const Clock& clock)
      : telemetry_(telemetry), clock_(clock) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new CallMeter(telemetry_, clock_, info->method());  // gRPC deletes it
  }

 private:
  telemetry::Telemetry& telemetry_;
  const Clock& clock_;
};

// A call is refused before a meter sees it, so it is counted here. `lines`: of the daemon's log.
void NoteRefused(telemetry::Telemetry& telemetry, Hub& hub, LineRate& lines,
                 const std::string& path, const tls::Caller& caller, const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string uris = absl::StrJoin(caller.uris, " ");
  const std::string token = caller.credential.token ? caller.credential.token->id : "";
  telemetry.RpcEnded(MethodLabel(path), code, absl::ZeroDuration());
  if (const auto left_out = lines.Admit(hub.Monotonic())) {
    spdlog::warn("call refused method={} caller={}{}{} code={}{}", Quoted(path), Quoted(uris),
                 token.empty() ? "" : " token=", token, code, LeftOutNote(*left_out));
  }
  const Method* method = FindMethod(path);
  if (method == nullptr || !method->audited) return;
  hub.Audit({.caller = uris,
             .peer = "",
             .method = std::string(method->name()),
             .resource = "",
             .request_id = "",
             .result = code,
             .token = token});
}

std::shared_ptr<grpc::ServerCredentials> Credentials(const ServerOptions& options,
                                                     telemetry::Telemetry& telemetry, Hub& hub,
                                                     std::shared_ptr<const tls::Callers> callers) {
  if (options.tls.empty()) return grpc::InsecureServerCredentials();
  std::shared_ptr<grpc::ServerCredentials> credentials = tls::ServerCredentials(
      options.tls, callers->take_tokens() ? tls::ClientCertificate::kOptional
                                          : tls::ClientCertificate::kRequired);
  credentials->SetAuthMetadataProcessor(NewAuthorizer(
      [&telemetry, &hub, lines = std::make_shared<LineRate>()](
          const std::string& path, const tls::Caller& caller, const absl::Status& status) {
        NoteRefused(telemetry, hub, *lines, path, caller, status);
      },
      std::move(callers)));
  return credentials;
}

// Null if there is no file of them.
absl::StatusOr<std::shared_ptr<tls::Revocations>> OpenRevocations(const ServerOptions& options) {
  if (options.tls_crl.empty()) return std::shared_ptr<tls::Revocations>();
  if (options.tls.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-crl: found ", options.tls_crl,
                     " without TLS, expected --tls-ca, --tls-certificate and --tls-key with it"));
  }
  return tls::Revocations::Open(options.tls.ca, options.tls_crl);
}

// What others may replace at any time. Each may be null.
struct Watched {
  std::shared_ptr<tls::Revocations> revocations;
  std::shared_ptr<tls::Tokens> tokens;

  bool any() const { return revocations != nullptr || tokens != nullptr; }
  bool current() const {
    return (revocations == nullptr || revocations->status().ok()) &&
           (tokens == nullptr || tokens->status().ok());
  }
};

void Report(const char* what, const absl::Status& status, int revoked) {
  if (status.ok()) {
    spdlog::info("{} read revoked={}", what, revoked);
  } else {
    spdlog::error("{} not read, the last good ones hold: {}", what, std::string(status.message()));
  }
}

// At every tick, and not only after a change, so that a call that was authorized just before is
// ended as well.
void Follow(const Watched& watched, Hub& hub) {
  if (watched.revocations != nullptr && watched.revocations->Refresh()) {
    Report("revocation lists", watched.revocations->status(), watched.revocations->count());
  }
  if (watched.tokens != nullptr && watched.tokens->Refresh()) {
    Report("keys of tokens", watched.tokens->status(), watched.tokens->revoked());
  }
  if (watched.any()) hub.CloseRefused(*hub.callers());
}

// A job of an earlier release has no owner, but an event that says who created it, unless a hundred
// others have come after that. It is stored along with the job's next change.
void FindOwner(coordinator::JobRecord* job) {
  if (!job->owner.empty() || job->events.events().empty()) return;
  const coordinator::JobEvent& first = job->events.events().front();
  if (first.reason != "Created") return;
  const absl::StatusOr<tls::Identity> creator = tls::IdentityOf({first.caller});
  if (creator.ok()) job->owner = creator->name;
}

}  // namespace

absl::StatusOr<std::shared_ptr<tls::Tokens>> OpenTokens(const ServerOptions& options) {
  if (options.tokens.empty()) return std::shared_ptr<tls::Tokens>();
  if (!options.tls.empty()) return tls::Tokens::Open(options.tokens);
  return absl::InvalidArgumentError(
      absl::StrCat("--tokens: found ", options.tokens,
                   " without TLS, expected --tls-ca, --tls-certificate and --tls-key with it"));
}

absl::Status CheckListenAddress(const ServerOptions& options) {
  const absl::StatusOr<Address> address = ParseAddress(options.listen);
  if (!address.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--listen: ", address.status().message()));
  }
  if (IsLoopback(*address) || !options.tls.empty() || options.insecure_listen_beyond_loopback) {
    return absl::OkStatus();
  }
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "--listen: found ", Quoted(options.listen),
          " without TLS, expected a loopback address (127.0.0.1, [::1], localhost), or --tls-ca, "
          "--tls-certificate and --tls-key: anyone who reaches this port could run jobs. "
          "--insecure-listen-beyond-loopback allows it")),
      "LISTEN_BEYOND_LOOPBACK", {{"address", options.listen}});
}

struct Server::Impl {
  Impl(std::unique_ptr<coordinator::JobStore> store_in, coordinator::Core core, const Clock& clock,
       telemetry::Telemetry& telemetry, std::unique_ptr<telemetry::AuditLog> audit_in,
       const Limits& limits, std::function<void()> guard)
      : telemetry(telemetry),
        audit(std::move(audit_in)),
        store(coordinator::ObserveStore(
            std::move(store_in), clock,
            [&telemetry](absl::Duration duration, const absl::Status& status) {
              telemetry.StoreCommitted(duration, status);
            })),
        loop(
            [&telemetry](const char* task, absl::Duration took) {
              telemetry.TaskOverBudget();
              spdlog::warn("slow task={} took={} budget={}: every call waited for it", task,
                           absl::FormatDuration(took), absl::FormatDuration(Loop::kTaskBudget));
            },
            std::move(guard)),
        hub(loop, clock, telemetry, *audit, limits),
        driver(std::move(core), *store, hub) {
    hub.SetDriver(driver);
    reader = std::make_shared<Reader>(hub);
  }

  // In order of dependence: each member uses only those above it.
  telemetry::Telemetry& telemetry;
  std::unique_ptr<telemetry::AuditLog> audit;
  std::unique_ptr<coordinator::JobStore> store;
  Loop loop;
  Hub hub;
  coordinator::Driver driver;
  std::shared_ptr<Reader> reader;  // shared with the monitoring page, which may be at work
  std::vector<std::unique_ptr<grpc::Service>> services;
  FrontedServer fronted;
  Mutex probe_mu;  // held by a probe, so that the front outlives it
  bool closed GUARDED_BY(probe_mu) = false;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { Shutdown(); }

int Server::port() const { return impl_->fronted.front->port(); }

std::shared_ptr<Reader> Server::reader() const { return impl_->reader; }

absl::Status Server::Probe() {
  const MutexLock lock(impl_->probe_mu);
  return impl_->closed ? absl::OkStatus() : impl_->fronted.front->Probe();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      std::unique_ptr<coordinator::JobStore> store,
                                                      const Clock& clock,
                                                      telemetry::Telemetry& telemetry) {
  RETURN_IF_ERROR(CheckListenAddress(options));
  if (!options.tls.empty()) {
    RETURN_IF_ERROR(
        tls::CheckFiles(options.tls, tls::Role::kCoordinator, Clock::Real().Now()).status());
  }
  Watched watched;
  ASSIGN_OR_RETURN(watched.revocations, OpenRevocations(options));
  ASSIGN_OR_RETURN(watched.tokens, OpenTokens(options));
  absl::StatusOr<std::unique_ptr<telemetry::AuditLog>> audit =
      telemetry::AuditLog::Open(options.audit_log, options.limits.max_audit_bytes, telemetry);
  if (!audit.ok()) {
    return absl::Status(audit.status().code(),
                        absl::StrCat("--audit-log: ", audit.status().message()));
  }
  ASSIGN_OR_RETURN(coordinator::Snapshot snapshot, store->Load());
  for (coordinator::JobRecord& job : snapshot.jobs) FindOwner(&job);
  ASSIGN_OR_RETURN(coordinator::Core core,
                   coordinator::Core::Restore(std::move(snapshot), options.core, clock.Now()));
  auto impl = std::make_unique<Impl>(std::move(store), std::move(core), clock, telemetry,
                                     *std::move(audit), options.limits, options.guard);
  impl->services.push_back(NewJobService(impl->hub));
  impl->services.push_back(NewClusterService(impl->hub));
  impl->services.push_back(NewWorkerService(impl->hub));
  const auto callers = std::make_shared<tls::Callers>(watched.revocations, watched.tokens, clock);
  impl->hub.SetCallers(callers);
  impl->loop.Start(options.tick, [hub = &impl->hub, watched] {
    Follow(watched, *hub);
    hub->Tick();
  });

  // Process-wide in gRPC: every server built afterwards has it. Reflection shows the API to anyone
  // who reaches the port; that is loopback, or users with a certificate.
  static std::once_flag reflection;
  if (!options.tls.empty() || IsLoopback(*ParseAddress(options.listen))) {
    std::call_once(reflection, grpc::reflection::InitProtoReflectionServerBuilderPlugin);
  }
  ASSIGN_OR_RETURN(
      impl->fronted,
      BuildServer(
          options, Credentials(options, telemetry, impl->hub, callers),
          [&](grpc::ServerBuilder& builder) {
            for (const auto& service : impl->services) {
              builder.RegisterService(service.get());
            }
            std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
                meters;
            meters.push_back(std::make_unique<CallMeterFactory>(telemetry, clock));
            builder.experimental().SetInterceptorCreators(std::move(meters));
          }));
  for (const char* name : kServices) {
    impl->fronted.server->GetHealthCheckService()->SetServingStatus(name, true);
  }
  telemetry.SetClusterState([driver = &impl->driver, clock = &clock,
                             front = impl->fronted.front.get(), watched, files = options.tls] {
    telemetry::ClusterState state = ReadClusterState(*driver, clock->Now());
    for (const tls::Lifetime& lifetime : tls::ReadLifetimes(files)) {
      state.certificates[lifetime.of] = {lifetime.begin, lifetime.end};
    }
    if (watched.any()) state.revocations_current = watched.current();
    state.connections = front->connections();
    state.connections_refused = {{"all", front->refused_in_all()},
                                 {"machine", front->refused_of_one_machine()}};
    state.connections_closed_for_memory = front->closed_for_memory();
    return state;
  });
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

void Server::Shutdown() {
  if (impl_->fronted.server == nullptr) return;
  {
    const MutexLock lock(impl_->probe_mu);
    impl_->closed = true;
  }
  impl_->fronted.server->GetHealthCheckService()->SetServingStatus(false);
  impl_->reader->Close();
  impl_->loop.Post([hub = &impl_->hub] {
    hub->CloseAll(
        WithReason(absl::UnavailableError("the coordinator is shutting down"), "SHUTTING_DOWN"));
  });
  impl_->fronted.front->Close();
  // The loop still runs, because calls in progress need it to end.
  impl_->fronted.server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(2));
  impl_->fronted.server->Wait();
  impl_->loop.Stop();
  impl_->fronted.server.reset();
  impl_->telemetry.SetClusterState({});
}

}  // namespace stretto::service
