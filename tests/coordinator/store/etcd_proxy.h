// SPDX-License-Identifier: Apache-2.0
#pragma once
// etcd behind a server that loses transactions or their answers on demand.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "etcd/etcd.grpc.pb.h"

namespace stretto::coordinator {

class EtcdProxy final : public etcdserverpb::KV::Service, public etcdserverpb::Lease::Service {
 public:
  enum class Fault { kNone, kRequestLost, kAnswerLost };

  explicit EtcdProxy(const std::string& endpoint) {
    const auto channel = grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials());
    kv_ = etcdserverpb::KV::NewStub(channel);
    lease_ = etcdserverpb::Lease::NewStub(channel);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Lease::Service*>(this));
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }
  ~EtcdProxy() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::string endpoint() const { return absl::StrCat("127.0.0.1:", port_); }
  // Applies to the next `transactions`, counting each attempt.
  void Fail(Fault fault, int transactions) {
    fault_ = fault;
    left_ = transactions;
  }
  // Remembers the last request that was lost, which SendLost carries out after all. Returns whether
  // its conditions held.
  void KeepLost() { keep_lost_ = true; }
  bool SendLost() {
    grpc::ClientContext context;
    etcdserverpb::TxnResponse response;
    EXPECT_GT(lost_.success_size(), 0);
    EXPECT_TRUE(kv_->Txn(&context, lost_, &response).ok());
    return response.succeeded();
  }
  int transactions() const { return transactions_; }  // that reached etcd

  grpc::Status Range(grpc::ServerContext* context, const etcdserverpb::RangeRequest* request,
                     etcdserverpb::RangeResponse* response) override {
    const auto client = grpc::ClientContext::FromServerContext(*context);
    return kv_->Range(client.get(), *request, response);
  }
  grpc::Status Txn(grpc::ServerContext* context, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* response) override {
    const bool faulty = left_ > 0 && left_-- > 0;
    const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "fault injected");
    if (faulty && fault_ == Fault::kRequestLost) {
      if (keep_lost_) lost_ = *request;
      return lost;
    }
    ++transactions_;
    const auto client = grpc::ClientContext::FromServerContext(*context);
    const grpc::Status status = kv_->Txn(client.get(), *request, response);
    return faulty ? lost : status;
  }
  grpc::Status LeaseGrant(grpc::ServerContext* context,
                          const etcdserverpb::LeaseGrantRequest* request,
                          etcdserverpb::LeaseGrantResponse* response) override {
    const auto client = grpc::ClientContext::FromServerContext(*context);
    return lease_->LeaseGrant(client.get(), *request, response);
  }
  grpc::Status LeaseKeepAlive(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                               etcdserverpb::LeaseKeepAliveRequest>* stream) override {
    const auto client = grpc::ClientContext::FromServerContext(*context);
    const auto ahead = lease_->LeaseKeepAlive(client.get());
    etcdserverpb::LeaseKeepAliveRequest request;
    etcdserverpb::LeaseKeepAliveResponse response;
    while (stream->Read(&request) && ahead->Write(request) && ahead->Read(&response)) {
      stream->Write(response);
    }
    client->TryCancel();
    ahead->Finish();
    return grpc::Status::OK;
  }

 private:
  std::unique_ptr<etcdserverpb::KV::Stub> kv_;
  std::unique_ptr<etcdserverpb::Lease::Stub> lease_;
  std::atomic<Fault> fault_ = Fault::kNone;
  std::atomic<int> left_ = 0, transactions_ = 0;
  std::atomic<bool> keep_lost_ = false;
  etcdserverpb::TxnRequest lost_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace stretto::coordinator
