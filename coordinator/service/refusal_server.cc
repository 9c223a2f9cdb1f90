// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/refusal_server.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/build_server.h"
#include "coordinator/service/errors.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "proto/tls/callers.h"
#include "proto/tls/credentials.h"
#include "proto/tls/tokens.h"

namespace stretto::service {
namespace {

// One call, which is refused.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

// `tokens` may be null.
std::shared_ptr<grpc::ServerCredentials> CredentialsOf(
    const ServerOptions& options, const std::shared_ptr<const tls::Tokens>& tokens) {
  if (options.tls.empty()) return grpc::InsecureServerCredentials();
  if (tokens == nullptr) return tls::ServerCredentials(options.tls);
  std::shared_ptr<grpc::ServerCredentials> credentials =
      tls::ServerCredentials(options.tls, tls::ClientCertificate::kOptional);
  credentials->SetAuthMetadataProcessor(
      NewAuthenticator(std::make_shared<tls::Callers>(nullptr, tokens, Clock::Real())));
  return credentials;
}

}  // namespace

struct RefusalServer::Impl final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    const MutexLock lock(mu);
    return new Refusal(ToGrpcStatus(refusal));
  }

  Mutex mu;
  absl::Status refusal GUARDED_BY(mu);
  std::shared_ptr<tls::Tokens> tokens;  // shared with gRPC's processor; may be null
  FrontedServer fronted;
};

RefusalServer::RefusalServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RefusalServer::~RefusalServer() {
  if (impl_->fronted.server == nullptr) return;
  impl_->fronted.front->Close();
  impl_->fronted.server->Shutdown(std::chrono::system_clock::now());
  impl_->fronted.server->Wait();
}

int RefusalServer::port() const { return impl_->fronted.front->port(); }

void RefusalServer::SetReason(const std::string& reason, const std::string& leader) {
  const MutexLock lock(impl_->mu);
  if (impl_->tokens != nullptr) impl_->tokens->Refresh();
  impl_->refusal = WithReason(absl::UnavailableError(reason), "STANDBY", {{"leader", leader}});
}

absl::StatusOr<std::unique_ptr<RefusalServer>> RefusalServer::Start(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckListenAddress(options));
  if (!options.tls.empty()) {
    RETURN_IF_ERROR(
        tls::CheckFiles(options.tls, tls::Role::kCoordinator, Clock::Real().Now()).status());
  }
  std::unique_ptr<RefusalServer> server(new RefusalServer(std::make_unique<Impl>()));
  Impl& impl = *server->impl_;
  ASSIGN_OR_RETURN(impl.tokens, OpenTokens(options));
  server->SetReason("standby; it has just started", "");
  ASSIGN_OR_RETURN(impl.fronted, BuildServer(options, CredentialsOf(options, impl.tokens),
                                             [&](grpc::ServerBuilder& builder) {
                                               builder.RegisterCallbackGenericService(&impl);
                                             }));
  impl.fronted.server->GetHealthCheckService()->SetServingStatus(false);
  return server;
}

}  // namespace stretto::service
