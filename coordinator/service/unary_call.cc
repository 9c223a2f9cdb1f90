// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/unary_call.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/service/authorize.h"
#include "coordinator/service/errors.h"
#include "coordinator/service/validate_request.h"
#include "coordinator/telemetry/audit.h"

namespace stretto::service {

grpc::ServerUnaryReactor* OnLoop(Hub& hub, grpc::CallbackServerContext* context,
                                 std::function<absl::Status()> call, const char* method) {
  return OnLoopLater(
      hub, context, [call = std::move(call)](const Finish& finish) { finish(call()); }, method);
}

grpc::ServerUnaryReactor* OnLoopLater(Hub& hub, grpc::CallbackServerContext* context,
                                      std::function<void(Finish)> call, const char* method) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  hub.loop().Post(
      [reactor, call = std::move(call)] {
        call([reactor](const absl::Status& status) { reactor->Finish(ToGrpcStatus(status)); });
      },
      method);
  return reactor;
}

std::string CallerUri(const grpc::CallbackServerContext* context) {
  const auto caller = CallerOf(*context->auth_context());
  return caller ? caller->uri : "";
}

absl::Status Audited(grpc::CallbackServerContext* context, const char* method,
                     const std::string& resource, const std::string& request_id,
                     absl::Status status) {
  telemetry::Audit({.caller = CallerUri(context),
                    .peer = context->peer(),
                    .method = method,
                    .resource = resource,
                    .request_id = request_id,
                    .result = absl::StatusCodeToString(status.code())});
  return status;
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
