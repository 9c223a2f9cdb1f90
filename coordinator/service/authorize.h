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
#include "proto/tls/callers.h"
#include "proto/tls/identity.h"

namespace grpc {
class AuthContext;
class AuthMetadataProcessor;
class ServerContextBase;
}  // namespace grpc

namespace stretto::service {

// What a user's role must cover.
enum class Scope {
  kNone,          // nothing: every user may call it
  kProject,       // the project of the job that it is about
  kEveryProject,  // the cluster, and so every project
};

struct Method {
  const char* path;  // "/SERVICE/METHOD"
  tls::Role caller;  // of the certificate; a token's is a user
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
  tls::Credential credential = {};  // of the caller; empty without TLS
  std::string peer = {};            // gRPC's name of the caller's address; empty with TLS
};

// Whether a user may do this.
bool IsAllowed(const Method& method, const tls::Identity& user, const Subject& subject);
// The same. Errors: PERMISSION_DENIED (ROLE_NEEDED), which names the method, the job, its owner and
// project, the role of the caller and the one that is needed.
absl::Status Authorize(const Call& call, const Subject& subject);
// Whether the caller may read a job as GetJob does, for a call of which `field` names that job.
// Errors: as Authorize, and names the field.
absl::Status AuthorizeReading(const Call& call, absl::string_view field, const Subject& subject);

// Whether a caller with these URIs is of the kind that calls this path at all. Everybody who has a
// certificate or a token may ask for health. Errors:
//   UNAUTHENTICATED    the certificate has no role, or more than one
//   PERMISSION_DENIED  the method is another kind's, or nobody's
absl::Status AuthorizePath(absl::string_view path, const std::vector<std::string>& uris);
// The last part of that, of a method that has a row. Errors: PERMISSION_DENIED.
absl::Status AuthorizeKind(const Method& method, const tls::Identity& caller);

// Makes the processor for ServerCredentials, which sees every call of every method, ours, gRPC's
// own and unknown ones, before it is dispatched. It asks `callers` who calls and whether that still
// counts, and then AuthorizePath. `refused` is called on gRPC's threads for every call that it
// refuses; its caller has no URI where nobody knows who it is. gRPC drops the details of these
// errors, so they carry no ErrorInfo. `callers` is shared, because gRPC may keep the processor
// longer than the server.
using Refused = std::function<void(const std::string& path, const tls::Caller& caller,
                                   const absl::Status& status)>;
std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthorizer(
    Refused refused, std::shared_ptr<const tls::Callers> callers);
// The same for a server that has no method to call: it asks who calls alone.
std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthenticator(
    std::shared_ptr<const tls::Callers> callers);

struct Principal {
  tls::Identity identity;
  tls::Credential credential;
};
// Returns who shows this, and what he may do, whether or not it still counts. Errors:
// UNAUTHENTICATED, those of Callers::Identify and tls::IdentityOf.
absl::StatusOr<Principal> PrincipalOf(const tls::Shown& shown, const tls::Callers& callers);
// Returns who makes a call that the processor has let pass. Without TLS it is user kLocalUser, with
// role admin in every project. Without `callers` nobody has a token.
Principal CallerOf(const grpc::ServerContextBase& context, const tls::Callers* callers);

}  // namespace stretto::service
