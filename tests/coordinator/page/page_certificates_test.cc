// SPDX-License-Identifier: Apache-2.0

// The page of a user who shows a client certificate, by TLS.

#include <gmock/gmock.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/coordinator/page/network_page_harness.h"

namespace stretto::page {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kListJobs[] = "/stretto.v1alpha1.JobService/ListJobs";
constexpr const char* kData[] = {"/api/jobs",           "/api/workers",
                                 "/api/jobs/gpt",       "/api/jobs/gpt/events",
                                 "/api/jobs/gpt/steps", "/api/jobs/gpt/timeline.svg"};

// With a revocation list beside the tokens.
class PageCertificatesTest : public NetworkPageTest {
 protected:
  PageCertificatesTest() { Restart(path_); }

  // `tokens`: the file; empty: the coordinator takes none.
  void Restart(const std::string& tokens) {
    Revoke({});
    tls_crl_ = crl_;
    tokens_ = tokens;
    Start(coordinator::NewMemoryStore());
    channel_ = tokens.empty() ? As("user/root/admin") : WithoutCertificate();
    jobs_ = v1alpha1::JobService::NewStub(channel_);
    network_->Show(server_->reader());
  }
  void Revoke(const std::vector<int64_t>& serials) const {
    EXPECT_TRUE(WriteFileAtomic(crl_, ca_.RevocationList(serials)).ok());
  }
  tls::Files Own(const tls::Certificate& certificate) { return OwnOf(ca_, certificate); }
  tls::Files OwnOf(const tls::TestCa& ca, const tls::Certificate& certificate) {
    return ca.Write(folder_, absl::StrCat("browser-", ++callers_), certificate);
  }
  // "user/alice/submitter/speech", "worker"
  tls::Files Own(const std::string& what, int64_t serial = 1) {
    return OwnOf(ca_, {.alternative_names = "URI:spiffe://test/stretto/" + what, .serial = serial});
  }
  std::string FetchAs(const tls::Files& own, const std::string& path) {
    return Fetch(path, {.own = own});
  }
  static std::string BodyOf(const std::string& answer) {
    return answer.substr(std::min(answer.size(), answer.find("\r\n\r\n") + 4));
  }
  void ExpectRefused(const std::string& answer, int code, const std::vector<std::string>& facts) {
    EXPECT_THAT(answer, StartsWith(absl::StrCat("HTTP/1.1 ", code, " ")));
    golden_.Add(BodyOf(answer), facts);
  }

  const std::string crl_ = folder_ + "/ca.crl";
};

TEST_F(PageCertificatesTest, AUserSeesTheJobsThatHisRolesCoverAndNoOthers) {
  Fill();
  const tls::Files alice = Own("user/alice/submitter/speech"), dash = Own("user/dash/viewer");
  const std::string jobs = FetchAs(alice, "/api/jobs");
  EXPECT_THAT(jobs, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(jobs, AllOf(HasSubstr("jobs/gpt"), Not(HasSubstr("jobs/bert"))));
  EXPECT_THAT(FetchAs(dash, "/api/jobs"), AllOf(HasSubstr("jobs/gpt"), HasSubstr("jobs/bert")));
  const std::string none = FetchAs(Own("user/eve/admin/images"), "/api/jobs");
  EXPECT_THAT(none, AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr("jobs/"))));
  for (const char* part : {"", "/events", "/steps"}) {
    EXPECT_THAT(FetchAs(alice, absl::StrCat("/api/jobs/gpt", part)), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(FetchAs(alice, absl::StrCat("/api/jobs/bert", part)), StartsWith("HTTP/1.1 403"));
  }
  EXPECT_THAT(FetchAs(alice, "/api/workers"), StartsWith("HTTP/1.1 200"));
  const std::string hidden = FetchAs(alice, "/api/jobs/bert");
  EXPECT_THAT(hidden, Not(HasSubstr("text/corpus")));
  ExpectRefused(hidden, 403, {"GetJob", "job bert of bob", "user alice"});
  EXPECT_THAT(Fetch("/api/jobs", {.own = dash, .version = TLS1_2_VERSION}), HasSubstr("jobs/gpt"));
}

// One code decides for both ports, so what it says is the same.
TEST_F(PageCertificatesTest, WhoIsWhoIsWhatTheApiSays) {
  const std::vector<std::pair<std::string, int>> names = {
      {"URI:spiffe://test/stretto/user/alice", 200},
      {"URI:spiffe://test/stretto/user/alice/viewer/speech", 200},
      {"URI:spiffe://test/stretto/worker/node-a", 403},
      {"URI:spiffe://test/stretto/worker", 403},
      {"URI:spiffe://test/stretto/coordinator", 403},
      {"URI:spiffe://test/stretto/user", 401},
      {"URI:spiffe://test/stretto/user/alice/king", 401},
      {"URI:spiffe://test/stretto/user/alice,URI:spiffe://test/stretto/worker", 401},
      {"URI:https://test/alice", 401},
      {"DNS:alice", 401},
      {"", 401}};
  for (const auto& [name, code] : names) {
    const tls::Certificate certificate{.alternative_names = name};
    const grpc::Status of_api = CallRaw(As(certificate), kListJobs);
    const std::string of_page = FetchAs(Own(certificate), "/api/jobs");
    EXPECT_THAT(of_page, StartsWith(absl::StrCat("HTTP/1.1 ", code, " "))) << name;
    EXPECT_EQ(of_api.ok(), code == 200) << name;
    if (code == 200) continue;
    EXPECT_EQ(of_api.error_code(),
              code == 401 ? grpc::StatusCode::UNAUTHENTICATED : grpc::StatusCode::PERMISSION_DENIED)
        << name;
    EXPECT_EQ(absl::StripSuffix(BodyOf(of_page), "\n"), of_api.error_message()) << name;
  }
}

TEST_F(PageCertificatesTest, AWorkerSeesNothing) {
  Fill();
  const tls::Files worker = Own("worker/node-a"), coordinator = Own("coordinator");
  for (const char* path : kData) {
    for (const tls::Files& own : {worker, coordinator}) {
      const std::string answer = FetchAs(own, path);
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 403")) << path;
      EXPECT_THAT(answer, Not(HasSubstr("corpus"))) << path;
    }
  }
  ExpectRefused(FetchAs(worker, "/api/workers"), 403,
                {"ListWorkers", "role worker", "worker/node-a", "expected role user"});
}

TEST_F(PageCertificatesTest, ARevokedCertificateIsRefusedAndTheNextOneIsNot) {
  const tls::Files alice = Own("user/alice/viewer", 5), again = Own("user/alice/viewer", 6);
  EXPECT_THAT(FetchAs(alice, "/api/jobs"), StartsWith("HTTP/1.1 200"));
  Revoke({5});
  // The coordinator reads the list at a tick, of which there are many while this asks so often.
  bool refused = false;
  for (int i = 0; i < 500 && !refused; ++i) {
    refused = FetchAs(alice, "/api/jobs").starts_with("HTTP/1.1 401");
  }
  EXPECT_TRUE(refused);
  for (const char* path : kData) {
    EXPECT_THAT(FetchAs(alice, path), StartsWith("HTTP/1.1 401")) << path;
  }
  ExpectRefused(FetchAs(alice, "/api/jobs"), 401,
                {"certificate 05 (spiffe://test/stretto/user/alice/viewer)", "revoked"});
  EXPECT_THAT(FetchAs(alice, "/"), StartsWith("HTTP/1.1 200")) << "it can say why";
  EXPECT_THAT(FetchAs(again, "/api/jobs"), StartsWith("HTTP/1.1 200"));
}

TEST_F(PageCertificatesTest, WhatTheApisHandshakeRefusesFailsHereToo) {
  const tls::TestCa other("other CA");
  const std::string names = tls::kUserCertificate.alternative_names;
  const std::vector<std::pair<const tls::TestCa*, tls::Certificate>> wrong = {
      {&other, tls::kUserCertificate},
      {&ca_, {.alternative_names = names, .end = -absl::Minutes(1)}},
      {&ca_, {.alternative_names = names, .begin = absl::Minutes(30)}},
      {&ca_, {.alternative_names = names, .usage = "serverAuth"}}};
  for (size_t i = 0; i < wrong.size(); ++i) {
    const tls::Files own = OwnOf(*wrong[i].first, wrong[i].second);
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
      EXPECT_EQ(Fetch("/", {.own = own, .version = version}), "") << i << " " << version;
      EXPECT_EQ(Fetch("/api/jobs", {.own = own, .version = version}), "") << i << " " << version;
    }
    tls::Files to_api = own;
    to_api.ca = folder_ + "/coordinator.ca";
    const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                             tls::ChannelCredentials(to_api));
    EXPECT_EQ(CallRaw(channel, kListJobs).error_code(), grpc::StatusCode::UNAVAILABLE) << i;
  }
  const tls::Files client =
      Own(tls::Certificate{.alternative_names = names, .usage = "clientAuth"});
  EXPECT_THAT(FetchAs(client, "/api/jobs"), StartsWith("HTTP/1.1 200")) << "afterwards";
}

TEST_F(PageCertificatesTest, ACertificateOrATokenAndNotBoth) {
  Fill();
  const std::string bearer = Bearer("alice/submitter/speech");
  EXPECT_THAT(Fetch("/api/jobs", {.authorization = bearer}), HasSubstr("jobs/gpt"));
  EXPECT_THAT(Fetch("/api/jobs", {.authorization = bearer, .own_script = false}),
              HasSubstr("jobs/gpt"))
      << "no other page has the token";
  ExpectRefused(Fetch("/api/jobs"), 401,
                {"no certificate and no token", "a user", "stretto ca token issue"});
  ExpectRefused(Fetch("/api/jobs", {.authorization = "Bearer " + page_key_}), 401,
                {"no certificate and another key"});
  EXPECT_THAT(Fetch("/"), StartsWith("HTTP/1.1 200"));
  const tls::Files dash = Own("user/dash/viewer");
  for (const std::string& shown : {bearer, std::string("Bearer x"), "Bearer " + page_key_}) {
    EXPECT_THAT(Fetch("/api/jobs", {.authorization = shown, .own = dash}),
                StartsWith("HTTP/1.1 401"))
        << shown;
  }
  const std::string both = Fetch("/api/jobs", {.authorization = bearer, .own = dash});
  ExpectRefused(both, 401, {"a certificate and a header authorization"});
  const auto channel = As("user/dash/viewer");
  EXPECT_EQ(absl::StripSuffix(BodyOf(both), "\n"),
            CallRaw(channel, kListJobs, "", {bearer}).error_message());
}

TEST_F(PageCertificatesTest, WithoutTokensACertificateIsTheOneWay) {
  service::ServerOptions options = options_;
  options.tokens = "";
  auto page = NetworkPage::Start("127.0.0.1:0", options);
  ASSERT_TRUE(page.ok()) << page.status();
  network_ = *std::move(page);
  Restart("");
  EXPECT_TRUE(Create("gpt", "", "speech").ok());
  EXPECT_THAT(FetchAs(Own("user/dash/viewer"), "/api/jobs"), HasSubstr("jobs/gpt"));
  EXPECT_THAT(Fetch("/"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Fetch("/api/jobs"), StartsWith("HTTP/1.1 401"));
  ExpectRefused(Fetch("/api/jobs", {.authorization = Bearer()}), 401,
                {"a token, which this coordinator does not take"});
}

// A browser shows the certificate also to what a page of somebody else asks of this address.
TEST_F(PageCertificatesTest, RequestsOfOtherPagesAreRefusedBeforeAnythingIsRead) {
  const tls::Files dash = Own("user/dash/viewer");
  const std::string bearer = Bearer("alice/submitter/speech");
  for (const char* path : kData) {
    EXPECT_THAT(Fetch(path, {.own = dash, .own_script = false}), StartsWith("HTTP/1.1 403"))
        << path;
    EXPECT_THAT(Fetch(path, {.authorization = bearer, .own = dash, .own_script = false}),
                StartsWith("HTTP/1.1 403"))
        << path;
  }
  ExpectRefused(Fetch("/api/jobs", {.own = dash, .own_script = false}), 403,
                {"without the header Stretto-Page", "other pages"});
  // Nobody else may send that header, which a browser asks first, or read an answer.
  const std::string asked = Fetch("/api/jobs", {.own = dash, .method = "OPTIONS"});
  EXPECT_THAT(asked, StartsWith("HTTP/1.1 405"));
  for (const std::string& answer : {asked, FetchAs(dash, "/api/jobs"), FetchAs(dash, "/")}) {
    EXPECT_THAT(answer, Not(HasSubstr("Access-Control")));
  }
  EXPECT_THAT(FetchAs(dash, "/api/jobs"),
              AllOf(HasSubstr("Cross-Origin-Resource-Policy: same-origin"),
                    HasSubstr("frame-ancestors 'none'")));
  EXPECT_THAT(FetchAs(dash, "/api.js"), HasSubstr("\"Stretto-Page\": \"1\""));
}

TEST_F(PageCertificatesTest, ANewCaIsTakenAndADamagedOneIsNot) {
  const tls::TestCa next("next CA");
  const tls::Files old_user = Own("user/alice/viewer"),
                   new_user = OwnOf(next, tls::kUserCertificate);
  const std::string ca = folder_ + "/page.ca";
  const auto sees = [&](const tls::Files& own) {
    return Fetch("/api/jobs", {.own = own, .ca = "coordinator.ca"}).starts_with("HTTP/1.1 200");
  };
  EXPECT_TRUE(sees(old_user));
  EXPECT_FALSE(sees(new_user));
  ASSERT_TRUE(WriteFileAtomic(ca, ca_.pem() + next.pem()).ok());
  EXPECT_TRUE(sees(old_user));
  EXPECT_TRUE(sees(new_user));
  for (const char* damaged : {"", "nothing"}) {
    ASSERT_TRUE(WriteFileAtomic(ca, damaged).ok());
    EXPECT_TRUE(sees(old_user));
    EXPECT_TRUE(sees(new_user));
  }
  EXPECT_THAT(log_.str(), HasSubstr("found no certificate in the CA's file"));
  ASSERT_TRUE(WriteFileAtomic(ca, next.pem()).ok());
  EXPECT_FALSE(sees(old_user));
  EXPECT_TRUE(sees(new_user));
}

}  // namespace
}  // namespace stretto::page
