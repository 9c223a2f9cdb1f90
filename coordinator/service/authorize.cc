// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/authorize.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/service/validate_request.h"

namespace stretto::service {
namespace {

using tls::Role;

constexpr char kHealth[] = "/grpc.health.v1.Health/";
// Nobody may call a service that has no row.
constexpr struct {
  const char* prefix;
  Role role;
} kAccess[] = {{"/stretto.v1alpha1.JobService/", Role::kUser},
               {"/stretto.v1alpha1.ClusterService/", Role::kUser},
               {"/grpc.reflection.", Role::kUser},
               {"/stretto.v1alpha1.WorkerService/", Role::kWorker}};

std::vector<std::string> UrisOf(const grpc::AuthContext& context) {
  std::vector<std::string> uris;
  for (const grpc::string_ref& uri : context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return uris;
}

class Authorizer final : public grpc::AuthMetadataProcessor {
 public:
  explicit Authorizer(Refused refused) : refused_(std::move(refused)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto found = metadata.find(":path");
    const std::string path =
        found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
    const std::vector<std::string> uris = UrisOf(*context);
    const absl::Status status = Authorize(path, uris);
    if (status.ok()) return grpc::Status::OK;
    refused_(path, uris, status);
    return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
  }

 private:
  const Refused refused_;
};

}  // namespace

absl::Status Authorize(absl::string_view path, const std::vector<std::string>& uris) {
  if (absl::StartsWith(path, kHealth)) return absl::OkStatus();
  const absl::StatusOr<tls::Identity> caller = tls::IdentityOf(uris);
  if (!caller.ok()) return caller.status();
  for (const auto& row : kAccess) {
    if (!absl::StartsWith(path, row.prefix)) continue;
    if (caller->role == row.role) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat(Quoted(path), ": found a certificate with role ", tls::RoleName(caller->role),
                     " (", Quoted(caller->uri), "), expected role ", tls::RoleName(row.role)));
  }
  return absl::PermissionDeniedError(
      absl::StrCat(Quoted(path), ": found a method that no role may call"));
}

std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthorizer(Refused refused) {
  return std::make_shared<Authorizer>(std::move(refused));
}

std::optional<tls::Identity> CallerOf(const grpc::AuthContext& context) {
  const absl::StatusOr<tls::Identity> caller = tls::IdentityOf(UrisOf(context));
  if (!caller.ok()) return std::nullopt;
  return *caller;
}

}  // namespace stretto::service
