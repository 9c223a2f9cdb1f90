// SPDX-License-Identifier: Apache-2.0
#include "coordinator/service/errors.h"

#include <grpcpp/support/status.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "proto/base/check.h"

namespace stretto::service {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";

std::string Bytes(const google::protobuf::MessageLite& message) {
  return message.SerializeAsString();
}

}  // namespace

absl::Status WithReason(absl::Status status, absl::string_view reason,
                        const std::vector<std::pair<std::string, std::string>>& metadata) {
  if (status.ok()) return status;
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason));
  info.set_domain(kErrorDomain);
  for (const auto& [key, value] : metadata) {
    auto* entry = info.add_metadata();
    entry->set_key(key);
    entry->set_value(value);
  }
  status.SetPayload(kErrorInfoUrl, absl::Cord(Bytes(info)));
  return status;
}

absl::Status FieldErrors(const std::vector<FieldViolation>& violations) {
  STRETTO_CHECK(!violations.empty());
  google::rpc::BadRequest bad_request;
  for (const FieldViolation& violation : violations) {
    auto* field = bad_request.add_field_violations();
    field->set_field(violation.field);
    field->set_description(violation.description);
  }
  absl::Status status = absl::InvalidArgumentError(spec::MessageOf(violations));
  status.SetPayload(kBadRequestUrl, absl::Cord(Bytes(bad_request)));
  return WithReason(std::move(status), "INVALID_FIELD", {{"field", violations[0].field}});
}

absl::Status FieldError(absl::string_view field, absl::string_view description) {
  return FieldErrors({{std::string(field), std::string(description)}});
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  absl::Status complete = status;
  if (!complete.GetPayload(kErrorInfoUrl)) {
    complete = WithReason(complete, absl::StatusCodeToString(status.code()));
  }
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(complete.code()));
  wire.set_message(std::string(complete.message()));
  // Payloads come in no particular order, but details start with ErrorInfo.
  for (const char* url : {kErrorInfoUrl, kBadRequestUrl}) {
    const auto payload = complete.GetPayload(url);
    if (!payload) continue;
    google::protobuf::Any* detail = wire.add_details();
    detail->set_type_url(url);
    detail->set_value(std::string(*payload));
  }
  return grpc::Status(static_cast<grpc::StatusCode>(complete.code()), wire.message(), Bytes(wire));
}

}  // namespace stretto::service
