// SPDX-License-Identifier: Apache-2.0
#pragma once
// A coordinator that takes tokens, and callers with them.

#include <memory>
#include <string>
#include <vector>

#include "tests/coordinator/service/tls_harness.h"
#include "tests/proto/tls/token_keys.h"

namespace stretto::service {

class TokenServiceTest : public TlsServiceTest {
 protected:
  TokenServiceTest() {
    Publish({});
    tokens_ = path_;
    Start(coordinator::NewMemoryStore());
    channel_ = WithoutCertificate();
    jobs_ = v1alpha1::JobService::NewStub(channel_);
  }

  // The numbers of tokens that are revoked.
  void Publish(const std::vector<int>& revoked) const { Publish(revoked, key_); }
  void Publish(const std::vector<int>& revoked, const tls::TestTokenKey& key) const {
    tls::TokensFile file{.keys = {key.key()}, .revoked = {}};
    for (const int number : revoked) file.revoked.push_back({tls::TokenId(number), clock_.Now()});
    EXPECT_TRUE(WriteFileAtomic(path_, tls::TokensText(file)).ok());
  }
  std::string Bearer(const std::string& user = "alice/submitter/speech", int number = 1) const {
    const absl::Time now = clock_.Now();
    return "Bearer " + key_.Token(user, now - absl::Hours(1), now + absl::Hours(1), number);
  }
  grpc::Status Create(const std::string& id, const std::string& bearer,
                      const std::string& project = "speech") {
    grpc::ClientContext context;
    SetDeadline(&context);
    context.AddMetadata("authorization", bearer);
    v1alpha1::CreateJobRequest request = TinyJob(id);
    request.mutable_job()->mutable_spec()->mutable_queue()->set_project(project);
    v1alpha1::Job job;
    return jobs_->CreateJob(&context, request, &job);
  }

  const tls::TestTokenKey key_;
  const std::string path_ = folder_ + "/tokens";
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1alpha1::JobService::Stub> jobs_;
};

}  // namespace stretto::service
