// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decides which caller may call which method on a port with TLS (docs/design/0010). The server asks
// before every call of every method: ours, gRPC's own and unknown ones.

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

// `path` is "/SERVICE/METHOD", and `uris` are those of the caller's certificate. Every certificate
// may ask for health, role worker may call WorkerService, and role user may call the API and
// reflection. Everything else is refused:
//   UNAUTHENTICATED    the certificate has no role, or more than one
//   PERMISSION_DENIED  the method is another role's
absl::Status Authorize(absl::string_view path, const std::vector<std::string>& uris);

// Makes the processor for ServerCredentials. `refused` is called on gRPC's threads for every
// refused call with its path, the caller's URIs and the reason. gRPC drops the details of these
// errors, so they carry no ErrorInfo.
using Refused = std::function<void(const std::string& path, const std::vector<std::string>& uris,
                                   const absl::Status& status)>;
std::shared_ptr<grpc::AuthMetadataProcessor> NewAuthorizer(Refused refused);

// Returns nothing on a port without TLS.
std::optional<tls::Identity> CallerOf(const grpc::AuthContext& context);

}  // namespace stretto::service
