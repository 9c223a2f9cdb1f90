// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the unary calls of all services share: they run on the loop, are authorized and audited, and
// return pages.
// A page token names the last entry shown, so a page stays correct while entries are added and
// removed.

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/hub.h"

namespace stretto::service {

// What a call is about, for its audit line.
struct Resource {
  std::string name = {};  // "jobs/gpt"
  std::string request_id = {};
  bool changes = true;  // false: this call of a method that can change it does not
};

// Runs `body` on the loop and ends the RPC with its result, unless the caller may not do this to
// the cluster; who looks up a job asks about that (LookUpJob). Writes the audit line of a method
// that has one. `method` is the calling function, which has the method's name.
grpc::ServerUnaryReactor* OnLoop(Hub& hub, grpc::CallbackServerContext* context, Resource resource,
                                 std::function<absl::Status(const Call& call)> body,
                                 const char* method = __builtin_FUNCTION());

// The same for a call whose result comes later: `body` passes it to its last argument, once, on the
// loop.
using Finish = std::function<void(const absl::Status&)>;
grpc::ServerUnaryReactor* OnLoopLater(Hub& hub, grpc::CallbackServerContext* context,
                                      Resource resource,
                                      std::function<void(const Call& call, Finish)> body,
                                      const char* method = __builtin_FUNCTION());

// Returns the call of the method with this name.
Call CallOf(const Hub& hub, grpc::CallbackServerContext* context,
            const char* method = __builtin_FUNCTION());

void Audit(Hub& hub, const grpc::CallbackServerContext& context, const Call& call,
           const Resource& resource, const absl::Status& status);

std::string MakeToken(absl::string_view list, absl::string_view last);
// Returns what MakeToken was given; empty for no token. Errors: InvalidArgument (another list's
// token, or none at all).
absl::StatusOr<std::string> ReadToken(absl::string_view list, const std::string& token);

}  // namespace stretto::service
