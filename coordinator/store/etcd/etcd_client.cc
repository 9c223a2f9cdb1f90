// SPDX-License-Identifier: Apache-2.0

// Each call makes attempts of at most kAttempt, at the endpoint that answered last and then at the
// others in turn. A transaction may so be sent twice: whoever makes one compares revisions that the
// first copy changes, so that the second is refused.

#include "coordinator/store/etcd/etcd_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "etcd/etcd.grpc.pb.h"
#include "proto/base/deadline.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/tls/explain.h"

namespace stretto::coordinator {
namespace {

namespace api = etcdserverpb;

constexpr absl::Duration kAttempt = absl::Seconds(1);
constexpr absl::Duration kPause = absl::Milliseconds(50);  // after all endpoints have failed

// The first key after all that begin with `prefix`.
std::string EndOf(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (!prefix.empty()) ++prefix.back();
  return prefix;
}

EtcdValue FromApi(const api::KeyValue& value) {
  return {.key = value.key(),
          .value = value.value(),
          .create_revision = value.create_revision(),
          .mod_revision = value.mod_revision()};
}

api::TxnRequest ToApi(const EtcdTransaction& transaction) {
  api::TxnRequest request;
  for (const EtcdCompare& compare : transaction.compares) {
    api::Compare* out = request.add_compare();
    out->set_key(compare.key);
    if (compare.target == EtcdCompare::Target::kCreated) {
      out->set_target(api::Compare::CREATE);
      out->set_create_revision(compare.revision);
    } else {
      out->set_target(api::Compare::MOD);
      out->set_mod_revision(compare.revision);
    }
  }
  for (const EtcdWrite& write : transaction.writes) {
    api::RequestOp* out = request.add_success();
    if (write.value.has_value()) {
      out->mutable_request_put()->set_key(write.key);
      out->mutable_request_put()->set_value(*write.value);
      out->mutable_request_put()->set_lease(write.lease);
    } else {
      out->mutable_request_delete_range()->set_key(write.key);
      if (write.prefix) out->mutable_request_delete_range()->set_range_end(EndOf(write.key));
    }
  }
  for (const std::string& key : transaction.reads) {
    request.add_failure()->mutable_request_range()->set_key(key);
  }
  return request;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const tls::Files& files) {
  if (files.empty()) return grpc::InsecureChannelCredentials();
  RETURN_IF_ERROR(tls::CheckClientFiles(files, absl::Now()));
  grpc::SslCredentialsOptions options;
  ASSIGN_OR_RETURN(options.pem_root_certs, ReadFile(files.ca));
  if (!files.key.empty()) {
    ASSIGN_OR_RETURN(options.pem_cert_chain, ReadFile(files.certificate));
    ASSIGN_OR_RETURN(options.pem_private_key, ReadFile(files.key));
  }
  return grpc::SslCredentials(options);
}

}  // namespace

struct EtcdClient::Endpoint {
  Endpoint(std::string to, const std::shared_ptr<grpc::Channel>& channel)
      : address(std::move(to)),
        kv(api::KV::NewStub(channel)),
        lease(api::Lease::NewStub(channel)) {}
  const std::string address;
  const std::unique_ptr<api::KV::Stub> kv;
  const std::unique_ptr<api::Lease::Stub> lease;
};

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Connect(
    const std::vector<std::string>& endpoints, const tls::Files& files, const Clock& clock) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, Credentials(files));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(-1);  // a page of records is as large as they are
  // Clients of one process share connections by default: one that hangs would keep all from it.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::vector<std::unique_ptr<Endpoint>> connected;
  for (const std::string& endpoint : endpoints) {
    connected.push_back(std::make_unique<Endpoint>(
        endpoint, grpc::CreateCustomChannel(endpoint, credentials, arguments)));
  }
  return std::unique_ptr<EtcdClient>(new EtcdClient(
      std::move(connected), files, absl::StrCat("etcd at ", absl::StrJoin(endpoints, ",")), clock));
}

EtcdClient::EtcdClient(std::vector<std::unique_ptr<Endpoint>> endpoints, tls::Files files,
                       std::string name, const Clock& clock)
    : endpoints_(std::move(endpoints)),
      files_(std::move(files)),
      name_(std::move(name)),
      clock_(clock) {}

EtcdClient::~EtcdClient() = default;

std::string EtcdClient::ExplainFailure() const {
  for (const std::unique_ptr<Endpoint>& endpoint : endpoints_) {
    const std::string why =
        tls::ExplainFailure(endpoint->address, files_, {.name = "etcd", .is_coordinator = false});
    if (!why.empty()) return absl::StrCat(endpoint->address, ": ", why);
  }
  return "";
}

template <class Call>
absl::Status EtcdClient::Try(absl::Duration within, const Call& call) {
  const Deadline deadline(within, clock_);
  for (size_t failed = 0;;) {
    const size_t at = current_;
    const absl::Duration attempt = std::min(deadline.Left(), kAttempt);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + attempt));
    const CallTimer::Watch watch(timer_, context, attempt);
    const grpc::Status status = call(*endpoints_[at], context);
    if (status.ok()) return absl::OkStatus();
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    const bool again = code == absl::StatusCode::kUnavailable ||
                       code == absl::StatusCode::kDeadlineExceeded ||
                       (code == absl::StatusCode::kCancelled && watch.over());
    if (!again) {
      const bool full = code == absl::StatusCode::kResourceExhausted;
      return absl::Status(code, absl::StrCat(name_, ": ", status.error_message(),
                                             full ? ". Nothing new is accepted until it has room; "
                                                    "jobs that run continue"
                                                  : ""));
    }
    size_t expected = at;
    current_.compare_exchange_strong(expected, (at + 1) % endpoints_.size());
    const bool all = ++failed % endpoints_.size() == 0;
    if (deadline.Left() <= (all ? kPause : absl::ZeroDuration())) {
      return absl::UnavailableError(absl::StrCat(name_, ": no answer within ",
                                                 absl::FormatDuration(within), " (",
                                                 status.error_message(), ")"));
    }
    if (all) absl::SleepFor(kPause);
  }
}

absl::StatusOr<EtcdRange> EtcdClient::Range(const RangeOf& range, absl::Duration within) {
  api::RangeRequest request;
  request.set_key(range.from.empty() ? range.key : range.from);
  if (range.prefix) request.set_range_end(EndOf(range.key));
  request.set_limit(range.limit);
  request.set_revision(range.revision);
  api::RangeResponse response;
  RETURN_IF_ERROR(Try(within, [&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.kv->Range(&context, request, &response);
  }));
  EtcdRange found{.values = {}, .more = response.more(), .revision = response.header().revision()};
  for (const api::KeyValue& value : response.kvs()) found.values.push_back(FromApi(value));
  return found;
}

absl::StatusOr<EtcdAnswer> EtcdClient::Commit(const EtcdTransaction& transaction,
                                              absl::Duration within) {
  const api::TxnRequest request = ToApi(transaction);
  api::TxnResponse response;
  RETURN_IF_ERROR(Try(within, [&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.kv->Txn(&context, request, &response);
  }));
  EtcdAnswer answer{
      .succeeded = response.succeeded(), .revision = response.header().revision(), .values = {}};
  for (const api::ResponseOp& op : response.responses()) {
    for (const api::KeyValue& value : op.response_range().kvs()) {
      answer.values.push_back(FromApi(value));
    }
  }
  return answer;
}

absl::Status EtcdClient::Compact(int64_t revision, absl::Duration within) {
  api::CompactionRequest request;
  request.set_revision(revision);
  api::CompactionResponse response;
  return Try(within, [&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.kv->Compact(&context, request, &response);
  });
}

absl::StatusOr<int64_t> EtcdClient::GrantLease(absl::Duration ttl, absl::Duration within) {
  api::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))));
  api::LeaseGrantResponse response;
  RETURN_IF_ERROR(Try(within, [&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.lease->LeaseGrant(&context, request, &response);
  }));
  return response.id();
}

absl::StatusOr<absl::Duration> EtcdClient::RenewLease(int64_t lease, absl::Duration within) {
  api::LeaseKeepAliveRequest request;
  request.set_id(lease);
  api::LeaseKeepAliveResponse response;
  RETURN_IF_ERROR(Try(within, [&](Endpoint& endpoint, grpc::ClientContext& context) {
    const auto stream = endpoint.lease->LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->Read(&response);
    if (answered) context.TryCancel();  // one answer is all that is wanted
    const grpc::Status status = stream->Finish();
    if (answered) return grpc::Status::OK;
    return !status.ok() ? status
                        : grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream has ended");
  }));
  if (response.ttl() <= 0) {
    return absl::NotFoundError(absl::StrCat(name_, ": lease ", lease, " has ended"));
  }
  return absl::Seconds(response.ttl());
}

absl::Status EtcdClient::RevokeLease(int64_t lease, absl::Duration within) {
  api::LeaseRevokeRequest request;
  request.set_id(lease);
  api::LeaseRevokeResponse response;
  return Try(within, [&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.lease->LeaseRevoke(&context, request, &response);
  });
}

}  // namespace stretto::coordinator
