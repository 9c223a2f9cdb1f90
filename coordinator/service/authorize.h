// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides who may call which method on what (docs/design/0076). The table of all methods is here
// and nowhere else; a method without a row is nobody's.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/tls/identity.h"

namespace grpc {
class AuthContext;
class AuthMetadataProcessor;
}  // namespace grpc

namespace stretto::tls {
class Revocations;
}  // namespace stretto::tls

namespace stretto::service {

// What a user's role must cover.
enum class Scope {
  kNone,          // nothing: every user may call it
  kProject,       // the project of the job that it is about
  kEveryProject,  // the cluster, and so every project
};

struct Method {
  const char* path;  // "/SERVICE/METHOD"
  tls::Role caller;  // of the certificate
  // If that is a user:
  Scope scope = Scope::kNone;
  tls::UserRole owner = tls::UserRole::kViewer;   // the least for the owner of the job
  tls::UserRole others = tls::UserRole::kViewer;  // the least for anybody else
  bool audited = false;                           // it changes something

  absl::string_view name() const;  // "CancelJob"
};

absl::Span<const Method> AllMethods();

// Returns the row of a method; null if it has none.
const Method* FindMethod(absl::string_view path);
// Returns the row of a method of our services by its last word, "CancelJob". It must exist.
const Method& MethodNamed(absl::string_view name);

// What a call is about. Without a project it is the cluster, or a job that nobody knows any more.
struct Subject {
  std::string job = {};    // id
  std::string owner = {};  // name of a user; empty: unknown, so nobody's
  std::string project = {};
};

// A call: who makes it and what it is.
struct Call {
  const Method& method;
  tls::Identity caller;
  std::string certificate = {};  // of the caller, in PEM; empty without TLS
};

// Whether a user may do this.
bool IsAllowed(const Method& method, const tls::Identity& user, const Subject& subject);
// The same. Errors: PERMISSION_DENIED (ROLE_NEEDED), which names the method, the job, its owner and
// project, the role of the caller and the one that is needed.
absl::Status Authorize(const Call& call, const Subject& subject);
// Whether the caller may read a job as GetJob does, for a call of which `field` names that job.
// Errors: as Authorize, and names the field.
absl::Status AuthorizeReading(const Call& call, absl::string_view field, const Subject& subject);

// Whether a certificate with these URIs is of the kind that calls this path at all. Every
// certificate may ask for health. Errors:
//   UNAUTHENTICATED    the certificate has no role, or more than one
//   PERMISSION_DENIED  the method is another kind's, or nobody's
absl::Status AuthorizePath(absl::string_view path, const std::vector<std::string>& uris);

// Makes the processor for ServerCredentials, which sees every call of every method, ours, gRPC's own
// and unknown ones, before it is dispatched. It asks `revocations` about the certificate, if that is
// not null, and then AuthorizePath. `refused` is called on gRPC's threads for every call that it
// refuses. gRPC drops the details of these errors, so they carry no ErrorInfo. `revocations` is
// shared, because gRPC may keep the processor longer than the server.
using Refused = std::function<void(const std::string& path, const std::vector<std::string>& uris,
                                   const absl::Status& status)>;
std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthorizer(
    Refused refused, std::shared_ptr<const tls::Revocations> revocations);

// Returns the holder of the certificate. Without TLS it is user kLocalUser, with role admin in
// every project.
tls::Identity CallerOf(const grpc::AuthContext& context);

// Returns the caller's certificate in PEM, without those of its issuers; empty without TLS.
std::string CertificateOf(const grpc::AuthContext& context);

}  // namespace stretto::service
