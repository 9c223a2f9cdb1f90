// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/unary_call.h"

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/validate_request.h"
#include "coordinator/telemetry/audit.h"
#include "proto/base/ids.h"

namespace stretto::service {

grpc::ServerUnaryReactor* OnLoop(Hub& hub, grpc::CallbackServerContext* context, Resource resource,
                                 std::function<absl::Status(const Call& call)> body,
                                 const char* method) {
  return OnLoopLater(
      hub, context, std::move(resource),
      [body = std::move(body)](const Call& call, const Finish& finish) { finish(body(call)); },
      method);
}

grpc::ServerUnaryReactor* OnLoopLater(Hub& hub, grpc::CallbackServerContext* context,
                                      Resource resource,
                                      std::function<void(const Call& call, Finish)> body,
                                      const char* method) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto call = std::make_shared<const Call>(CallOf(hub, context, method));
  const Finish finish = [&hub, context, reactor, resource = std::move(resource),
                         call](const absl::Status& status) {
    if (call->method.audited && resource.changes) Audit(hub, *context, *call, resource, status);
    reactor->Finish(ToGrpcStatus(status));
  };
  hub.loop().Post(
      [context, call, finish, body = std::move(body)] {
        // A flood of calls that are reset would keep those behind them waiting.
        if (context->IsCancelled()) return finish(absl::CancelledError("the caller has gone"));
        if (call->method.scope == Scope::kEveryProject) {
          if (const absl::Status status = Authorize(*call, {}); !status.ok()) return finish(status);
        }
        body(*call, finish);
      },
      method);
  return reactor;
}

Call CallOf(const Hub& hub, grpc::CallbackServerContext* context, const char* method) {
  Principal caller = CallerOf(*context, hub.callers());
  std::string peer = caller.credential.empty() ? context->peer() : "";
  return {MethodNamed(method), std::move(caller.identity), std::move(caller.credential),
          std::move(peer)};
}

void Audit(Hub& hub, const grpc::CallbackServerContext& context, const Call& call,
           const Resource& resource, const absl::Status& status) {
  hub.Audit({.caller = call.caller.uri.empty() ? kLocalUser : call.caller.uri,
             .peer = context.peer(),
             .method = std::string(call.method.name()),
             .resource = resource.name,
             .request_id = resource.request_id,
             .result = absl::StatusCodeToString(status.code()),
             .token = call.credential.token ? call.credential.token->id : ""});
}

std::string MakeToken(absl::string_view list, absl::string_view last) {
  return absl::WebSafeBase64Escape(absl::StrCat(list, ":", last));
}

absl::StatusOr<std::string> ReadToken(absl::string_view list, const std::string& token) {
  if (token.empty()) return std::string();
  std::string text;
  absl::string_view last;
  if (absl::WebSafeBase64Unescape(token, &text)) {
    last = text;
    if (absl::ConsumePrefix(&last, absl::StrCat(list, ":")) && !last.empty()) {
      return std::string(last);
    }
  }
  return FieldError("page_token", absl::StrCat("found ", Quoted(token),
                                               ", expected a next_page_token of this method"));
}

}  // namespace stretto::service
