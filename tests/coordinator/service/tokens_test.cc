// SPDX-License-Identifier: Apache-2.0

// A coordinator that takes tokens of users in place of certificates: what they open, what they do
// not, and how they end.

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>

#include "coordinator/service/authorize.h"
#include "coordinator/service/refusal_server.h"
#include "tests/coordinator/service/token_harness.h"

namespace stretto::service {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;
using tls::TokenId;

constexpr char kListJobs[] = "/stretto.v1alpha1.JobService/ListJobs";
constexpr char kCancelJob[] = "/stretto.v1alpha1.JobService/CancelJob";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";

class TokensTest : public TokenServiceTest {
 protected:
  grpc::Status Call(const std::string& method, const std::vector<std::string>& bearers) {
    return CallRaw(channel_, method, "", bearers);
  }
  StatusCode List(const std::string& bearer) { return Call(kListJobs, {bearer}).error_code(); }
};

// Every method of the API, what gRPC adds, and some that nobody has.
std::vector<std::pair<std::string, std::optional<tls::Role>>> EveryMethod() {
  std::vector<std::pair<std::string, std::optional<tls::Role>>> methods = {
      {"/no.such.Service/Method", std::nullopt},
      {"/stretto.v1alpha1.TrainerService/Attach", std::nullopt}};
  for (const Method& method : AllMethods()) methods.emplace_back(method.path, method.caller);
  return methods;
}

TEST_F(TokensTest, WithoutCertificateAndTokenNothingIsAnswered) {
  for (const auto& [path, role] : EveryMethod()) {
    EXPECT_EQ(Call(path, {}).error_code(), StatusCode::UNAUTHENTICATED) << path;
  }
  golden_.Add(Call(kHealth, {}).error_message(), {"neither", "either a certificate or one token"});
  EXPECT_THAT(AuditLog(), HasSubstr("caller=- peer=- method=CancelJob resource=- request_id=- "
                                    "result=UNAUTHENTICATED\n"));
}

TEST_F(TokensTest, ATokenCallsTheMethodsOfUsersAndNoOthers) {
  const std::string bearer = Bearer("root/admin");
  for (const auto& [path, role] : EveryMethod()) {
    const grpc::Status status = Call(path, {bearer});
    if (role == tls::Role::kUser) {
      EXPECT_NE(status.error_code(), StatusCode::PERMISSION_DENIED) << path;
      EXPECT_NE(status.error_code(), StatusCode::UNAUTHENTICATED) << path;
      EXPECT_NE(status.error_code(), StatusCode::UNAVAILABLE) << path;
    } else {
      EXPECT_EQ(status.error_code(), StatusCode::PERMISSION_DENIED)
          << path << ": " << status.error_message();
    }
  }
  EXPECT_TRUE(Call(kHealth, {bearer}).ok());
}

TEST_F(TokensTest, TheHolderIsTheUserWithHisRoles) {
  EXPECT_TRUE(Create("gpt", Bearer()).ok());
  EXPECT_EQ(Create("other", Bearer(), "text").error_code(), StatusCode::PERMISSION_DENIED);
  const auto get = [&](const std::string& bearer, v1alpha1::Job* job) {
    grpc::ClientContext context;
    SetDeadline(&context);
    context.AddMetadata("authorization", bearer);
    v1alpha1::GetJobRequest request;
    request.set_name("jobs/gpt");
    return jobs_->GetJob(&context, request, job);
  };
  v1alpha1::Job job;
  ASSERT_TRUE(get(Bearer("dash/viewer"), &job).ok());
  EXPECT_EQ(job.owner(), "alice");
  EXPECT_REFUSED(get(Bearer("bob/admin/text"), &job), PERMISSION_DENIED, "ROLE_NEEDED", "user bob",
                 "of alice");
  // The name counts, however he shows it.
  const auto by_certificate = v1alpha1::JobService::NewStub(As("user/alice/viewer/speech"));
  grpc::ClientContext context;
  SetDeadline(&context);
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/gpt");
  EXPECT_TRUE(by_certificate->GetJob(&context, request, &job).ok());
}

TEST_F(TokensTest, TheAuditLogNamesTheHolderAndTheTokenAndNobodyShowsIt) {
  EXPECT_TRUE(Create("gpt", Bearer()).ok());
  EXPECT_FALSE(Call(kCancelJob, {Bearer("bob/viewer", 2)}).ok());
  Publish({2});
  EXPECT_TRUE(Soon([&] { return List(Bearer("bob/viewer", 2)) == StatusCode::UNAUTHENTICATED; }));
  EXPECT_FALSE(Call(kCancelJob, {Bearer("bob/viewer", 2)}).ok());
  const std::string log = AuditLog();
  EXPECT_THAT(log,
              testing::ContainsRegex(absl::StrCat(
                  "caller=spiffe://test/stretto/user/alice/submitter/speech token=", TokenId(1),
                  " peer=[^ ]*127.0.0.1[^ ]* method=CreateJob resource=jobs/gpt "
                  "request_id=- result=OK\n")));
  EXPECT_THAT(
      log, HasSubstr(absl::StrCat("caller=spiffe://test/stretto/user/bob/viewer token=", TokenId(2),
                                  " peer=- method=CancelJob resource=- "
                                  "request_id=- result=UNAUTHENTICATED\n")));
  server_->Shutdown();
  EXPECT_THAT(log_.str(), HasSubstr("caller=\"spiffe://test/stretto/user/bob/viewer\" token=" +
                                    TokenId(2) + " code=UNAUTHENTICATED"));
  EXPECT_THAT(log_.str(), HasSubstr("keys of tokens read revoked=1"));
  for (const std::string& text : {log_.str(), log}) EXPECT_THAT(text, Not(HasSubstr("eyJ")));
}

TEST_F(TokensTest, ABadCertificateIsRefusedWhateverElseIsShown) {
  const std::string bearer = Bearer();
  const tls::TestCa other("other CA");
  tls::Files stranger = other.Write(folder_, "stranger", tls::kUserCertificate);
  stranger.ca = folder_ + "/coordinator.ca";
  const auto with = [&](const tls::Files& files) {
    return grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                               tls::ChannelCredentials(files));
  };
  EXPECT_EQ(CallRaw(with(stranger), kListJobs, "", {bearer}).error_code(), StatusCode::UNAVAILABLE);
  tls::Certificate expired = tls::kUserCertificate;
  expired.end = -absl::Minutes(1);
  EXPECT_EQ(CallRaw(As(expired), kListJobs, "", {bearer}).error_code(), StatusCode::UNAVAILABLE);
  // A good one may not lend the token its way in, nor the token its roles.
  for (const char* who : {"worker", "user/bob", "coordinator"}) {
    EXPECT_EQ(CallRaw(As(who), kListJobs, "", {bearer}).error_code(), StatusCode::UNAUTHENTICATED)
        << who;
  }
  EXPECT_EQ(CallRaw(As("worker"), kListJobs).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(CallRaw(As("user/bob"), kListJobs).ok());
}

TEST_F(TokensTest, WhatIsNoTokenOfOursIsRefused) {
  const tls::TestTokenKey other;
  const absl::Time now = clock_.Now();
  const std::string forged =
      "Bearer " + other.Token("root/admin", now - absl::Hours(1), now + absl::Hours(1));
  const std::vector<std::vector<std::string>> all = {{forged},
                                                     {"Basic cm9vdDo="},
                                                     {""},
                                                     {Bearer(), Bearer()},
                                                     {Bearer() + "A"},
                                                     {"Bearer " + std::string(5000, 'a')}};
  for (const std::vector<std::string>& bearers : all) {
    EXPECT_EQ(Call(kListJobs, bearers).error_code(), StatusCode::UNAUTHENTICATED) << bearers[0];
  }
  golden_.Add(Call(kListJobs, {forged}).error_message(), {"token: ", "no key of this coordinator"});
}

TEST_F(TokensTest, ARevokedTokenIsRefusedOnTheSameConnectionAndItsStreamEnds) {
  ASSERT_TRUE(Create("gpt", Bearer()).ok());
  grpc::ClientContext context, other_context;
  const auto watch = [&](grpc::ClientContext& watching, const std::string& bearer) {
    SetDeadline(&watching);
    watching.AddMetadata("authorization", bearer);
    v1alpha1::WatchJobRequest request;
    request.set_name("jobs/gpt");
    return jobs_->WatchJob(&watching, request);
  };
  const auto revoked = watch(context, Bearer());
  const auto other = watch(other_context, Bearer("dash/viewer", 2));
  v1alpha1::WatchJobResponse response;
  ASSERT_TRUE(revoked->Read(&response));
  ASSERT_TRUE(other->Read(&response));
  Publish({1});
  while (revoked->Read(&response)) {
  }
  EXPECT_REFUSED(revoked->Finish(), UNAUTHENTICATED, "TOKEN_ENDED", TokenId(1), "alice", "revoked");
  EXPECT_EQ(List(Bearer()), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(List(Bearer("dash/viewer", 2)), StatusCode::OK);
  EXPECT_EQ(List(Bearer("alice/submitter/speech", 3)), StatusCode::OK) << "another one of hers";
  EXPECT_TRUE(Shows("stretto_revocation_lists_current 1"));
  other_context.TryCancel();
  other->Finish();
}

TEST_F(TokensTest, AnExpiredTokenIsRefusedAndItsStreamEnds) {
  const std::string bearer = Bearer();
  ASSERT_TRUE(Create("gpt", bearer).ok());
  grpc::ClientContext context;
  SetDeadline(&context);
  context.AddMetadata("authorization", bearer);
  v1alpha1::WatchJobRequest request;
  request.set_name("jobs/gpt");
  const auto watch = jobs_->WatchJob(&context, request);
  v1alpha1::WatchJobResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(List(bearer), StatusCode::OK);
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(List(bearer), StatusCode::UNAUTHENTICATED);
  while (watch->Read(&response)) {
  }
  EXPECT_REFUSED(watch->Finish(), UNAUTHENTICATED, "TOKEN_ENDED", "expired at");
  EXPECT_EQ(List(Bearer()), StatusCode::OK) << "a new one";
  // One that begins later.
  const absl::Time now = clock_.Now();
  EXPECT_EQ(List("Bearer " + key_.Token("alice", now + absl::Hours(1), now + absl::Hours(2))),
            StatusCode::UNAUTHENTICATED);
}

TEST_F(TokensTest, AKeyThatIsTakenBackTakesItsTokensWithIt) {
  EXPECT_EQ(List(Bearer()), StatusCode::OK);
  const tls::TestTokenKey next;
  Publish({}, next);
  EXPECT_TRUE(Soon([&] { return List(Bearer()) == StatusCode::UNAUTHENTICATED; }));
  const absl::Time now = clock_.Now();
  EXPECT_EQ(List("Bearer " + next.Token("alice", now, now + absl::Hours(1))), StatusCode::OK);
}

TEST_F(TokensTest, ADamagedFileChangesNothingAndIsSeen) {
  Publish({1});
  EXPECT_TRUE(Soon([&] { return List(Bearer()) == StatusCode::UNAUTHENTICATED; }));
  const std::string good = *ReadFile(path_);
  ASSERT_TRUE(WriteFileAtomic(path_, good.substr(0, good.size() / 2)).ok());
  EXPECT_TRUE(Soon([&] { return Shows("stretto_revocation_lists_current 0"); }));
  EXPECT_EQ(List(Bearer()), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(List(Bearer("bob/viewer", 2)), StatusCode::OK);
  server_->Shutdown();
  EXPECT_THAT(log_.str(),
              HasSubstr("keys of tokens not read, the last good ones hold: --tokens " + path_));
}

TEST_F(TokensTest, ABadFileOrNoTlsStopsTheStart) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.tokens = path_;
  golden_.Hide(folder_, "FOLDER");
  golden_.Add(RefusedStart(options), {"--tokens", "/tokens", "--tls-ca"});
  options.tls = ca_.Write(folder_, "own", tls::kCoordinatorCertificate);
  ASSERT_TRUE(WriteFileAtomic(path_, "{\"keys\": []}").ok());
  golden_.Add(RefusedStart(options), {"--tokens ", "/tokens", "both lists"});
  options.tokens = "/no/such";
  golden_.Add(RefusedStart(options), {"--tokens: open /no/such"});
}

TEST_F(TokensTest, WithoutTheFlagACertificateIsRequired) {
  tokens_ = "";
  Start(coordinator::NewMemoryStore());
  EXPECT_EQ(CallRaw(WithoutCertificate(), kListJobs, "", {Bearer()}).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_TRUE(CallRaw(As("user/alice"), kListJobs, "", {Bearer()}).ok());
}

TEST_F(TokensTest, AStandbyTellsNobodyElseWhoLeads) {
  ServerOptions options;
  options.listen = "127.0.0.1:0";
  options.tls = ca_.Write(folder_, "own", tls::kCoordinatorCertificate);
  options.tokens = path_;
  const auto standby = RefusalServer::Start(options);
  ASSERT_TRUE(standby.ok()) << standby.status();
  (*standby)->SetReason("standby; the leader is b:7070", "b:7070");
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", (*standby)->port()),
                          tls::ChannelCredentials({.ca = options.tls.ca, .token = "x"}));
  EXPECT_EQ(CallRaw(channel, kListJobs).error_code(), StatusCode::UNAUTHENTICATED);
  // It has the clock of the machine.
  const absl::Time now = absl::Now();
  const std::string bearer = "Bearer " + key_.Token("alice", now, now + absl::Hours(1));
  EXPECT_EQ(CallRaw(channel, kListJobs, "", {bearer}).error_message(),
            "standby; the leader is b:7070");
  Publish({1});
  (*standby)->SetReason("standby; the leader is c:7070", "c:7070");
  EXPECT_EQ(CallRaw(channel, kListJobs, "", {bearer}).error_code(), StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace stretto::service
