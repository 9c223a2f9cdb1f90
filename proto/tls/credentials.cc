// SPDX-License-Identifier: Apache-2.0
#include "proto/tls/credentials.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace stretto::tls {
namespace {

namespace experimental = grpc::experimental;

constexpr unsigned kRefreshSeconds = 1;

std::shared_ptr<experimental::CertificateProviderInterface> Watch(const Files& files) {
  if (files.certificate.empty()) {
    return std::make_shared<experimental::FileWatcherCertificateProvider>(files.ca,
                                                                          kRefreshSeconds);
  }
  return std::make_shared<experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.ca, kRefreshSeconds);
}

// Verifies the host name, as gRPC does, and the role.
class CoordinatorVerifier final : public experimental::ExternalCertificateVerifier {
 public:
  bool Verify(experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> callback, grpc::Status* sync_status) override {
    if (request->dns_names().empty() && request->ip_names().empty()) {
      // gRPC would use the subject's common name then.
      *sync_status = {grpc::StatusCode::UNAUTHENTICATED,
                      "found no DNS name and no address in the certificate, expected those that "
                      "clients call the coordinator by"};
      return true;
    }
    host_name_.Verify(request, std::move(callback), sync_status);  // runs synchronously
    if (!sync_status->ok()) return true;
    std::vector<std::string> uris;
    for (const grpc::string_ref& uri : request->uri_names())
      uris.emplace_back(uri.data(), uri.size());
    const absl::StatusOr<Identity> identity = IdentityOf(uris);
    if (!identity.ok()) {
      *sync_status = {grpc::StatusCode::UNAUTHENTICATED, std::string(identity.status().message())};
    } else if (identity->role != Role::kCoordinator) {
      *sync_status = {grpc::StatusCode::UNAUTHENTICATED,
                      absl::StrCat("found role ", RoleName(identity->role), ", expected role ",
                                   RoleName(Role::kCoordinator))};
    }
    return true;
  }
  void Cancel(experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  experimental::HostNameCertificateVerifier host_name_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const Files& files,
                                                           ClientCertificate client) {
  experimental::TlsServerCredentialsOptions options(Watch(files));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(client == ClientCertificate::kRequired
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const Files& files) {
  experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(Watch(files));
  options.watch_root_certs();
  if (!files.certificate.empty()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      experimental::ExternalCertificateVerifier::Create<CoordinatorVerifier>());
  return experimental::TlsCredentials(options);
}

}  // namespace stretto::tls
