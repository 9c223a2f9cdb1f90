// SPDX-License-Identifier: Apache-2.0

// One table has every method. Whether a certificate or a token counts, and its kind, are checked
// before a call is dispatched, where nothing can be forgotten; the role of a user is checked where
// the job is known, by those who look it up (LookUpJob) and by OnLoop.

#include "coordinator/service/authorize.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/validate_request.h"
#include "proto/base/check.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace stretto::service {
namespace {

using tls::Role;
using tls::UserRole;
using enum Scope;
using enum UserRole;

constexpr char kHealth[] = "/grpc.health.v1.Health/";

#define JOBS "/stretto.v1alpha1.JobService/"
#define CLUSTER "/stretto.v1alpha1.ClusterService/"
#define WORKERS "/stretto.v1alpha1.WorkerService/"
// path, certificate, what the role must cover, its least of the job's owner and of others, audited
constexpr Method kMethods[] = {
    {JOBS "CreateJob", Role::kUser, kProject, kSubmitter, kSubmitter, true},
    {JOBS "GetJob", Role::kUser, kProject, kViewer, kViewer},
    {JOBS "ListJobs", Role::kUser, kProject, kViewer, kViewer},
    {JOBS "ListJobEvents", Role::kUser, kProject, kViewer, kViewer},
    {JOBS "WatchJob", Role::kUser, kProject, kViewer, kViewer},
    {JOBS "StreamJobLogs", Role::kUser, kProject, kViewer, kViewer},
    {JOBS "StreamJobTrace", Role::kUser, kProject, kViewer, kViewer},
    {JOBS "CancelJob", Role::kUser, kProject, kSubmitter, kOperator, true},
    {JOBS "CheckpointJob", Role::kUser, kProject, kSubmitter, kOperator, true},
    {JOBS "SuspendJob", Role::kUser, kProject, kSubmitter, kOperator, true},
    {JOBS "ResumeJob", Role::kUser, kProject, kSubmitter, kOperator, true},
    {JOBS "DeleteJob", Role::kUser, kProject, kSubmitter, kOperator, true},
    {CLUSTER "GetWorker", Role::kUser},
    {CLUSTER "ListWorkers", Role::kUser},
    {CLUSTER "CordonWorker", Role::kUser, kEveryProject, kOperator, kOperator, true},
    {CLUSTER "UncordonWorker", Role::kUser, kEveryProject, kOperator, kOperator, true},
    {CLUSTER "ForgetWorker", Role::kUser, kEveryProject, kAdmin, kAdmin, true},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Role::kUser},
    {.path = WORKERS "Session", .caller = Role::kWorker, .audited = true},
    {WORKERS "StoreSet", Role::kWorker},
    {WORKERS "StoreGet", Role::kWorker},
};
#undef JOBS
#undef CLUSTER
#undef WORKERS

std::vector<std::string> UrisOf(const grpc::AuthContext& context) {
  std::vector<std::string> uris;
  for (const grpc::string_ref& uri : context.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return uris;
}

// Whether gRPC says so. Any other kind of connection, also one that a later gRPC adds, needs a
// certificate.
bool HasNoSecurity(const grpc::AuthContext& context) {
  const auto types = context.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return types.size() == 1 && types[0] == "insecure";
}

std::string CertificateOf(const grpc::AuthContext& context) {
  const auto found = context.FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  return found.size() == 1 ? std::string(found[0].data(), found[0].size()) : "";
}

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

tls::Shown ShownBy(const Metadata& metadata, const grpc::AuthContext& context) {
  tls::Shown shown{.certificate = CertificateOf(context), .uris = UrisOf(context)};
  const auto [begin, end] = metadata.equal_range("authorization");
  for (auto at = begin; at != end; ++at) {
    shown.authorizations.emplace_back(at->second.data(), at->second.size());
  }
  return shown;
}

class Authorizer final : public grpc::AuthMetadataProcessor {
 public:
  // `paths`: whether paths are authorized too.
  Authorizer(Refused refused, std::shared_ptr<const tls::Callers> callers, bool paths)
      : refused_(std::move(refused)), callers_(std::move(callers)), paths_(paths) {}
  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto found = metadata.find(":path");
    const std::string path =
        found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
    const absl::StatusOr<tls::Caller> caller = callers_->Identify(ShownBy(metadata, *context));
    absl::Status status = caller.status();
    if (status.ok()) status = callers_->Check(caller->credential);
    if (status.ok() && paths_) status = AuthorizePath(path, caller->uris);
    if (status.ok()) return grpc::Status::OK;
    refused_(path, caller.ok() ? *caller : tls::Caller{.uris = UrisOf(*context)}, status);
    return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
  }

 private:
  const Refused refused_;
  const std::shared_ptr<const tls::Callers> callers_;
  const bool paths_;
};

UserRole NeededRole(const Method& method, const tls::Identity& user, const Subject& subject) {
  return !subject.owner.empty() && subject.owner == user.name ? method.owner : method.others;
}

// `what` is done, as the message names it.
absl::Status Check(const Method& method, absl::string_view what, const tls::Identity& caller,
                   const Subject& subject) {
  if (IsAllowed(method, caller, subject)) return absl::OkStatus();
  std::string job;
  if (!subject.job.empty()) {
    job = absl::StrCat(": job ", subject.job, " of ",
                       subject.owner.empty() ? "an unknown owner" : subject.owner);
  }
  const std::optional<UserRole> role = RoleIn(caller, subject.project);
  const char* needed = RoleName(NeededRole(method, caller, subject));
  return WithReason(absl::PermissionDeniedError(absl::StrCat(
                        what, job, ": found user ", caller.name,
                        role ? absl::StrCat(" with role ", RoleName(*role)) : " without a role",
                        subject.project.empty() ? " in every project" : " in project ",
                        subject.project, ", expected role ", needed)),
                    "ROLE_NEEDED",
                    {{"method", std::string(what)},
                     {"job", subject.job},
                     {"owner", subject.owner},
                     {"project", subject.project},
                     {"role", needed}});
}

}  // namespace

absl::string_view Method::name() const {
  const absl::string_view all = path;
  return all.substr(all.rfind('/') + 1);
}

absl::Span<const Method> AllMethods() { return kMethods; }

const Method* FindMethod(absl::string_view path) {
  for (const Method& method : kMethods) {
    if (path == method.path) return &method;
  }
  return nullptr;
}

const Method& MethodNamed(absl::string_view name) {
  for (const Method& method : kMethods) {
    if (method.name() == name) return method;
  }
  STRETTO_CHECK(false);
}

bool IsAllowed(const Method& method, const tls::Identity& user, const Subject& subject) {
  if (user.role != method.caller) return false;
  if (method.scope == kNone) return true;
  const std::optional<UserRole> role = RoleIn(user, subject.project);
  return role && *role >= NeededRole(method, user, subject);
}

absl::Status Authorize(const Call& call, const Subject& subject) {
  return Check(call.method, call.method.name(), call.caller, subject);
}

absl::Status AuthorizeReading(const Call& call, absl::string_view field, const Subject& subject) {
  return Check(MethodNamed("GetJob"), absl::StrCat(call.method.name(), ": ", field), call.caller,
               subject);
}

absl::Status AuthorizePath(absl::string_view path, const std::vector<std::string>& uris) {
  if (absl::StartsWith(path, kHealth)) return absl::OkStatus();
  const absl::StatusOr<tls::Identity> caller = tls::IdentityOf(uris);
  if (!caller.ok()) return caller.status();
  const Method* method = FindMethod(path);
  if (method == nullptr) {
    return absl::PermissionDeniedError(
        absl::StrCat(Quoted(path), ": found a method that no role may call"));
  }
  return AuthorizeKind(*method, *caller);
}

absl::Status AuthorizeKind(const Method& method, const tls::Identity& caller) {
  if (caller.role == method.caller) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      Quoted(method.path), ": found a certificate with role ", tls::RoleName(caller.role), " (",
      Quoted(caller.uri), "), expected role ", tls::RoleName(method.caller)));
}

std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthorizer(
    Refused refused, std::shared_ptr<const tls::Callers> callers) {
  return std::make_shared<Authorizer>(std::move(refused), std::move(callers), /*paths=*/true);
}

std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthenticator(
    std::shared_ptr<const tls::Callers> callers) {
  return std::make_shared<Authorizer>(
      [](const std::string&, const tls::Caller&, const absl::Status&) {}, std::move(callers),
      /*paths=*/false);
}

absl::StatusOr<Principal> PrincipalOf(const tls::Shown& shown, const tls::Callers& callers) {
  ASSIGN_OR_RETURN(tls::Caller caller, callers.Identify(shown));
  ASSIGN_OR_RETURN(tls::Identity identity, tls::IdentityOf(caller.uris));
  return Principal{std::move(identity), std::move(caller.credential)};
}

Principal CallerOf(const grpc::ServerContextBase& context, const tls::Callers* callers) {
  const std::shared_ptr<const grpc::AuthContext> security = context.auth_context();
  if (HasNoSecurity(*security)) {
    return {{.role = Role::kUser, .name = kLocalUser, .uri = "", .grants = {{kAdmin, ""}}}, {}};
  }
  const tls::Shown shown = ShownBy(context.client_metadata(), *security);
  // The processor has refused whoever is nobody here.
  if (callers == nullptr) {
    return {tls::IdentityOf(shown.uris).value_or(tls::Identity()), {shown.certificate}};
  }
  return PrincipalOf(shown, *callers).value_or(Principal());
}

}  // namespace stretto::service
