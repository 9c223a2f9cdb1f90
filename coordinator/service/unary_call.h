// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the unary calls of all services share: they run on the loop, are audited, and return pages.
// A page token names the last entry shown, so a page stays correct while entries are added and
// removed.

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/service/hub.h"

namespace stretto::service {

// Runs `call` on the loop and ends the RPC with its result. `method` is the calling function.
grpc::ServerUnaryReactor* OnLoop(Hub& hub, grpc::CallbackServerContext* context,
                                 std::function<absl::Status()> call,
                                 const char* method = __builtin_FUNCTION());

// The same for a call whose result comes later: it passes it to its argument, once, on the loop.
using Finish = std::function<void(const absl::Status&)>;
grpc::ServerUnaryReactor* OnLoopLater(Hub& hub, grpc::CallbackServerContext* context,
                                      std::function<void(Finish)> call,
                                      const char* method = __builtin_FUNCTION());

// URI of the caller's certificate; empty without TLS.
std::string CallerUri(const grpc::CallbackServerContext* context);

// Writes the audit line of a call that changed or tried to change something, and returns its
// status.
absl::Status Audited(grpc::CallbackServerContext* context, const char* method,
                     const std::string& resource, const std::string& request_id,
                     absl::Status status);

std::string MakeToken(absl::string_view list, absl::string_view last);
// Returns what MakeToken was given; empty for no token. Errors: InvalidArgument (another list's
// token, or none at all).
absl::StatusOr<std::string> ReadToken(absl::string_view list, const std::string& token);

}  // namespace stretto::service
