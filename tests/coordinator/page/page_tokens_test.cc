// SPDX-License-Identifier: Apache-2.0

// The page of a user who shows a token: what it shows him, and what it serves to other machines.

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/page/network_page_harness.h"
#include "tests/proto/monitoring/http_get.h"

namespace stretto::page {
namespace {

using monitoring::Answer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(PageTokensTest, AUserSeesTheJobsThatHisRolesCoverAndNoOthers) {
  EXPECT_THAT(Jobs(Bearer("alice/submitter/speech")), ElementsAre("jobs/gpt"));
  EXPECT_THAT(Jobs(Bearer("bob/submitter/text")), ElementsAre("jobs/bert"));
  EXPECT_THAT(Jobs(Bearer("eve/admin/images")), IsEmpty());
  EXPECT_THAT(Jobs(Bearer("dash/viewer")), ElementsAre("jobs/bert", "jobs/gpt"));
  EXPECT_THAT(Jobs("Bearer " + page_key_), ElementsAre("jobs/bert", "jobs/gpt"));
}

TEST_F(PageTokensTest, AJobOfAnotherProjectIsNotShownByItsName) {
  const std::string alice = Bearer("alice/submitter/speech"), bob = Bearer("bob/admin/text");
  for (const char* part : {"", "/events", "/steps"}) {
    const std::string path = absl::StrCat("/api/jobs/gpt", part);
    EXPECT_EQ(Get(path, alice).code, 200) << path;
    const Answer refused = Get(path, bob);
    EXPECT_EQ(refused.code, 403) << path;
    EXPECT_THAT(refused.body, Not(HasSubstr("text/corpus")));
  }
  EXPECT_EQ(Get("/api/jobs/gpt/timeline.svg", bob).code, 403);
  EXPECT_EQ(Get("/api/jobs/gpt/timeline.svg", alice).code, 409) << "it has no steps";
  ExpectRefused(Get("/api/jobs/gpt", bob), 403, {"GetJob", "job gpt of alice", "user bob"});
  EXPECT_EQ(Get("/api/workers", bob).code, 200);
}

TEST_F(PageTokensTest, ATokenThatDoesNotCountIsRefused) {
  const std::string alice = Bearer("alice/submitter/speech");
  const tls::TestTokenKey other;
  const absl::Time now = clock_.Now();
  const std::string forged =
      "Bearer " + other.Token("root/admin", now - absl::Hours(1), now + absl::Hours(1));
  ExpectRefused(Get("/api/jobs", forged), 401, {"no key of this coordinator"});
  ExpectRefused(Get("/api/jobs", ""), 401, {"no key", "page.key", "token"});
  for (const std::string& wrong : {alice + "A", alice.substr(7), "Basic " + alice.substr(7),
                                   "Bearer " + std::string(64, 'b'), std::string("Bearer a.b.c")}) {
    EXPECT_EQ(Get("/api/jobs", wrong).code, 401) << wrong;
    EXPECT_EQ(Get("/api/jobs/gpt", wrong).code, 401) << wrong;
  }
  Publish({1});
  EXPECT_TRUE(Soon([&] { return Get("/api/jobs", alice).code == 401; }));
  ExpectRefused(Get("/api/jobs", alice), 401, {tls::TokenId(1), "alice", "revoked"});
  const std::string again = Bearer("alice/submitter/speech", 2);
  EXPECT_EQ(Get("/api/jobs", again).code, 200);
  clock_.Advance(absl::Hours(1));
  ExpectRefused(Get("/api/jobs", again), 401, {tls::TokenId(2), "alice", "expired at"});
}

TEST_F(PageTokensTest, WithoutAServerATokenReadsNothing) {
  server_->Shutdown();
  EXPECT_EQ(Get("/api/jobs", Bearer("dash/viewer")).code, 503);
  page_.Show(nullptr);
  EXPECT_EQ(Get("/api/jobs", Bearer("dash/viewer")).code, 503);
}

TEST_F(PageTokensTest, OnTheNetworkATokenAloneCountsUnderAnyName) {
  Page page(absl::OkStatus(), page_key_, Reach::kNetwork);
  page.Show(server_->reader());
  const std::string host = "coordinator.example:7443";
  EXPECT_EQ(Get(page, "/", "", host).code, 200);
  EXPECT_EQ(Get(page, "/api/jobs", Bearer("dash/viewer"), host).code, 200);
  ExpectRefused(Get(page, "/api/jobs", "", host), 401,
                {"no certificate and no token", "stretto ca token issue"});
  Page keyless(absl::OkStatus(), "", Reach::kNetwork);
  keyless.Show(server_->reader());
  for (const char* nothing : {"", "Bearer ", "Bearer", "Bearer  "}) {
    EXPECT_EQ(Get(keyless, "/api/jobs", nothing, host).code, 401) << nothing;
  }
}

TEST_F(NetworkPageTest, ABrowserSeesItByTlsWithAToken) {
  EXPECT_THAT(Fetch("/"), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(Fetch("/", {.version = TLS1_2_VERSION}), StartsWith("HTTP/1.1 200"));
  const std::string jobs = Fetch("/api/jobs", {.authorization = Bearer("alice/submitter/speech")});
  EXPECT_THAT(jobs, HasSubstr("jobs/gpt"));
  EXPECT_THAT(jobs, Not(HasSubstr("jobs/bert")));
  EXPECT_THAT(jobs, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(Fetch("/api/jobs"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Fetch("/api/jobs", {.authorization = "Bearer " + page_key_}),
              StartsWith("HTTP/1.1 401"));
  // Machines ask the other port.
  for (const char* path : {"/metrics", "/healthz", "/readyz"}) {
    EXPECT_THAT(Fetch(path), StartsWith("HTTP/1.1 404")) << path;
  }
  // A longer answer than one record of TLS.
  EXPECT_GT(Fetch("/main.js").size() + Fetch("/job.js").size(), 8000u);
}

TEST_F(NetworkPageTest, WithoutTlsOrItsCertificateNothingIsShown) {
  EXPECT_THAT(monitoring::HttpGet(network_->port(), "/"), Not(HasSubstr("200 OK")));
  EXPECT_EQ(Fetch("/", {.version = TLS1_1_VERSION}), "");
  const tls::TestCa other("other CA");
  other.Write(folder_, "other", tls::kUserCertificate);
  EXPECT_EQ(Fetch("/", {.ca = "other.ca"}), "");
  EXPECT_THAT(Fetch("/"), StartsWith("HTTP/1.1 200")) << "afterwards";
}

TEST_F(NetworkPageTest, ANewCertificateIsTakenAndADamagedOneIsNot) {
  int64_t serial = 0;
  Fetch("/", {.serial = &serial});
  EXPECT_EQ(serial, 1);
  tls::Certificate next = tls::kCoordinatorCertificate;
  next.serial = 7;
  ca_.Write(folder_, "page", next);
  Fetch("/", {.serial = &serial});
  EXPECT_EQ(serial, 7);
  ASSERT_TRUE(WriteFileAtomic(folder_ + "/page.crt", "nothing").ok());
  serial = 0;
  EXPECT_THAT(Fetch("/", {.serial = &serial}), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(serial, 7);
  EXPECT_THAT(log_.str(), HasSubstr("the page keeps its certificate and CA: --page-listen: "));
}

TEST_F(NetworkPageTest, WhoStallsDelaysNobody) {
  const FileDescriptor silent = Connect(), rude = Connect();
  ASSERT_TRUE(WriteAll(rude.get(), "\x16\x03\x01\x02", "socket").ok());
  EXPECT_THAT(Fetch("/"), StartsWith("HTTP/1.1 200"));
  ASSERT_TRUE(WriteAll(rude.get(), "\xff\xff no handshake", "socket").ok());
  EXPECT_THAT(Fetch("/"), StartsWith("HTTP/1.1 200"));
}

TEST_F(NetworkPageTest, ItNeedsTlsAndAnAddress) {
  golden_.Hide(folder_, "FOLDER");
  golden_.Hide(absl::StrCat(":", network_->port()), ":PORT");
  const auto refused = [](const std::string& listen, const service::ServerOptions& options) {
    return std::string(NetworkPage::Start(listen, options).status().message());
  };
  service::ServerOptions options = options_;
  golden_.Add(refused("0.0.0.0:7443", {}), {"--page-listen", "TLS", "--tls-ca"});
  golden_.Add(refused("7443", options_), {"--page-listen", "7443"});
  golden_.Add(refused(absl::StrCat("127.0.0.1:", network_->port()), options_),
              {"--page-listen", "in use"});
  options.tls = ca_.Write(folder_, "user", tls::kUserCertificate);
  golden_.Add(refused("127.0.0.1:0", options), {"role coordinator"});
}

}  // namespace
}  // namespace stretto::page
