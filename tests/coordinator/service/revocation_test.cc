// SPDX-License-Identifier: Apache-2.0

// A coordinator with revocation lists: a certificate that is revoked while it is in use.

#include <gmock/gmock.h>

#include "tests/coordinator/service/tls_harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kListJobs[] = "/stretto.v1alpha1.JobService/ListJobs";

class RevokedTest : public TlsServiceTest {
 protected:
  RevokedTest() {
    Write({});
    tls_crl_ = path_;
    Start(coordinator::NewMemoryStore());
  }
  void Write(const std::vector<int64_t>& serials) const {
    EXPECT_TRUE(WriteFileAtomic(path_, ca_.RevocationList(serials)).ok());
  }
  static tls::Certificate Numbered(tls::Certificate certificate, int64_t serial) {
    certificate.serial = serial;
    return certificate;
  }
  std::shared_ptr<grpc::Channel> User(int64_t serial) {
    return As(Numbered(tls::kUserCertificate, serial));
  }
  static StatusCode List(const std::shared_ptr<grpc::Channel>& channel) {
    return CallRaw(channel, kListJobs).error_code();
  }

  const std::string path_ = folder_ + "/ca.crl";
};

TEST_F(RevokedTest, ARevokedUserIsRefusedOnTheSameConnection) {
  const auto alice = User(5), bob = User(6);
  EXPECT_EQ(List(alice), StatusCode::OK);
  EXPECT_EQ(List(bob), StatusCode::OK);
  Write({5});
  EXPECT_TRUE(Soon([&] { return List(alice) == StatusCode::UNAUTHENTICATED; }));
  EXPECT_EQ(List(bob), StatusCode::OK);
  golden_.Add(CallRaw(alice, kListJobs).error_message(),
              {"certificate 05 (spiffe://test/stretto/user/alice)", "revoked", "a new one"});
  // Health, which every other certificate may ask for, reflection and unknown methods as well.
  for (const char* path : {"/grpc.health.v1.Health/Check", "/no.such.Service/Method",
                           "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CallRaw(alice, path).error_code(), StatusCode::UNAUTHENTICATED) << path;
  }
  EXPECT_EQ(List(User(5)), StatusCode::UNAUTHENTICATED) << "a new connection";
  EXPECT_THAT(AuditLog(), Not(HasSubstr("ListJobs")));
  EXPECT_EQ(CallRaw(alice, "/stretto.v1alpha1.JobService/CancelJob").error_code(),
            StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(AuditLog(), HasSubstr("caller=spiffe://test/stretto/user/alice peer=- "
                                    "method=CancelJob resource=- request_id=- "
                                    "result=UNAUTHENTICATED\n"));
  server_->Shutdown();
  EXPECT_THAT(log_.str(), HasSubstr("revocation lists read revoked=1"));
  EXPECT_THAT(log_.str(), HasSubstr("caller=\"spiffe://test/stretto/user/alice\" "
                                    "code=UNAUTHENTICATED"));
}

TEST_F(RevokedTest, TheSessionOfARevokedWorkerEnds) {
  const auto channel_a = As(Numbered(tls::WorkerCertificate("node-a"), 5));
  const auto channel_b = As(Numbered(tls::WorkerCertificate("node-b"), 6));
  const auto a = v1alpha1::WorkerService::NewStub(channel_a);
  const auto b = v1alpha1::WorkerService::NewStub(channel_b);
  FakeWorker revoked(*a, "node-a"), other(*b, "node-b");
  ASSERT_TRUE(revoked.Register().has_registered());
  ASSERT_TRUE(other.Register().has_registered());
  Write({5});
  EXPECT_REFUSED(revoked.Ended(), UNAUTHENTICATED, "CERTIFICATE_REVOKED", "certificate 05",
                 "spiffe://test/stretto/worker/node-a");
  FakeWorker again(*a, "node-a");
  EXPECT_FALSE(again.Register().has_registered());
  EXPECT_EQ(again.Ended().error_code(), StatusCode::UNAUTHENTICATED);
  // The other one's session is the same as before.
  Write({});
  EXPECT_TRUE(Soon([&] { return List(User(5)) == StatusCode::OK; }));
  FakeWorker back(*a, "node-a");
  EXPECT_TRUE(back.Register().has_registered());
  EXPECT_TRUE(Shows("stretto_workers{state=\"READY\"} 2"));
}

TEST_F(RevokedTest, AnOpenStreamOfARevokedUserEnds) {
  const auto jobs = v1alpha1::JobService::NewStub(User(5));
  v1alpha1::Job job;
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    ASSERT_TRUE(jobs->CreateJob(&context, TinyJob("gpt"), &job).ok());
  }
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  const auto watch = jobs->WatchJob(&context, request);
  v1alpha1::WatchJobResponse response;
  ASSERT_TRUE(watch->Read(&response));
  Write({5});
  while (watch->Read(&response)) {
  }
  EXPECT_REFUSED(watch->Finish(), UNAUTHENTICATED, "CERTIFICATE_REVOKED", "certificate 05");
}

TEST_F(RevokedTest, ADamagedListOrOneOfAnotherCaChangesNothingAndIsSeen) {
  Write({5});
  const auto alice = User(5), bob = User(6);
  EXPECT_TRUE(Soon([&] { return List(alice) == StatusCode::UNAUTHENTICATED; }));
  EXPECT_TRUE(Shows("stretto_revocation_lists_current 1"));
  const std::string good = ca_.RevocationList({});
  for (const std::string& bad :
       {good.substr(0, good.size() / 2), tls::TestCa("other CA").RevocationList({6})}) {
    ASSERT_TRUE(WriteFileAtomic(path_, bad).ok());
    EXPECT_TRUE(Soon([&] { return Shows("stretto_revocation_lists_current 0"); }));
    EXPECT_EQ(List(alice), StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(List(bob), StatusCode::OK);
    Write({5});
    EXPECT_TRUE(Soon([&] { return Shows("stretto_revocation_lists_current 1"); }));
  }
  server_->Shutdown();
  EXPECT_THAT(log_.str(), HasSubstr("revocation lists not read, the last good ones hold: "
                                    "--tls-crl " +
                                    path_));
}

TEST_F(RevokedTest, ABadListStopsTheStart) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.tls_crl = path_;
  golden_.Hide(folder_, "FOLDER");
  golden_.Add(RefusedStart(options), {"--tls-crl", "/ca.crl", "--tls-ca"});
  options.tls = ca_.Write(folder_, "own", tls::kCoordinatorCertificate);
  ASSERT_TRUE(WriteFileAtomic(path_, tls::TestCa("other CA").RevocationList({})).ok());
  golden_.Add(RefusedStart(options), {"--tls-crl ", "CN=other CA", "own.ca"});
  options.tls_crl = "/no/such.crl";
  golden_.Add(RefusedStart(options), {"--tls-crl: open /no/such.crl"});
}

TEST_F(RevokedTest, MetricsShowWhenCertificatesEnd) {
  const std::string begin = "stretto_certificate_begin_timestamp_seconds{certificate=\"",
                    end = "stretto_certificate_end_timestamp_seconds{certificate=\"";
  for (const std::string& metric : {begin, end}) {
    EXPECT_THAT(telemetry_.Text(), HasSubstr(metric + "own\"} "));
    EXPECT_THAT(telemetry_.Text(), HasSubstr(metric + "ca\"} "));
  }
  // A replaced file is seen at the next scrape.
  const std::string before = telemetry_.Text();
  tls::Certificate longer = tls::kCoordinatorCertificate;
  longer.end = absl::Hours(9);
  ca_.Write(folder_, "coordinator", longer);
  const auto own = [&](const std::string& text) {
    return text.substr(text.find(end + "own"), 100);
  };
  EXPECT_NE(own(telemetry_.Text()), own(before));
}

TEST_F(RevokedTest, WithoutTheFlagNothingIsShown) {
  tls_crl_ = "";
  Start(coordinator::NewMemoryStore());
  EXPECT_EQ(List(User(5)), StatusCode::OK);
  EXPECT_THAT(telemetry_.Text(), Not(HasSubstr("stretto_revocation_lists_current ")));
}

}  // namespace
}  // namespace stretto::service
