// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who may call what on a port with TLS (docs/design/0010): asked before every call of every method,
// ours, gRPC's own and unknown ones, by the server itself.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/tls/identity.h"

namespace grpc {
class AuthContext;
class AuthMetadataProcessor;
}  // namespace grpc

namespace stretto::service {

// `path` is "/SERVICE/METHOD", `uris` those of the caller's certificate. Every certificate may ask
// for health, role worker may call WorkerService, role user the API and reflection; nobody anything
// else.
//   UNAUTHENTICATED    no role, or more than one
//   PERMISSION_DENIED  another role's
absl::Status Authorize(absl::string_view path, const std::vector<std::string>& uris);

// For ServerCredentials. `refused` is called, on gRPC's threads, for every call that is: path, the
// caller's URIs, why. gRPC takes no details along, so these errors carry no ErrorInfo.
using Refused = std::function<void(const std::string& path, const std::vector<std::string>& uris,
                                   const absl::Status& status)>;
std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthorizer(Refused refused);

// Nothing on a port without TLS.
std::optional<tls::Identity> CallerOf(const grpc::AuthContext& context);

}  // namespace stretto::service
