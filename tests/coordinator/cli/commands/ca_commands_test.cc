// SPDX-License-Identifier: Apache-2.0

// `stretto ca ...`: what is shown, and what is refused.

#include "coordinator/cli/commands/ca_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "proto/base/files.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kDay = absl::Hours(24);

class CaTest : public CommandsTest {
 protected:
  std::string Folder() const { return dir_ + "/tls"; }
  void Init() {
    ASSERT_EQ(InitCa(terminal_, Folder(), "test CA", 3650, now_), kOk) << err();
    out_.str("");
    err_.str("");
  }
  // The certificates that the last command with `-o json` has shown.
  std::vector<std::string> Shown(const std::string& key) const {
    std::vector<std::string> values;
    const auto document = nlohmann::json::parse(out());
    for (const auto& one : document["certificates"]) values.push_back(one[key].get<std::string>());
    return values;
  }
  std::vector<std::string> States(absl::Time at) {
    out_.str("");
    EXPECT_EQ(ListCertificates(terminal_, Folder(), OutputFormat::kJson, at), kOk) << err();
    return Shown("state");
  }
  ExitCode Rotate(const std::vector<std::string>& names, absl::Time at, int days = 0) {
    out_.str("");
    err_.str("");
    return RotateCertificates(terminal_, Folder(), names, days, OutputFormat::kJson, at);
  }

  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(CaTest, InitIssueListAndRevoke) {
  EXPECT_EQ(Run({"ca", "init", Folder(), "--name", "CA of lab"}), kOk);
  EXPECT_THAT(err(), HasSubstr("CA of lab made in "));
  EXPECT_THAT(err(), HasSubstr("stretto ca issue " + Folder() + " --coordinator-host"));
  EXPECT_EQ(Run({"ca", "init", Folder()}), kError);
  ExpectMessage({Folder(), "found a CA"});
  EXPECT_EQ(Run({"ca", "issue", Folder(), "--coordinator-host", "localhost", "127.0.0.1",
                 "--worker", "node-a", "node-b", "--user", "ann/admin"}),
            kOk)
      << err();
  EXPECT_THAT(out(), HasSubstr("DNS:localhost,IP:127.0.0.1"));
  for (const char* name : {"coordinator", "worker-node-a", "worker-node-b", "user-ann"}) {
    EXPECT_TRUE(std::filesystem::exists(Folder() + "/" + name + ".key")) << name;
  }
  EXPECT_EQ(Run({"ca", "list", Folder(), "-o", "json"}), kOk);
  EXPECT_THAT(Shown("name"),
              ElementsAre("coordinator", "worker-node-a", "worker-node-b", "user-ann"));
  EXPECT_THAT(Shown("state"), ElementsAre("valid", "valid", "valid", "valid"));
  EXPECT_EQ(Run({"ca", "revoke", Folder(), "user-ann", "--reason", "keyCompromise"}), kOk);
  ExpectMessage({Folder() + "/ca.crl", "--tls-crl"});
  EXPECT_THAT(out(), HasSubstr("revoked"));
  EXPECT_THAT(out(), Not(HasSubstr("node-a")));
  EXPECT_EQ(Run({"ca", "list", Folder()}), kOk);
  EXPECT_THAT(out(), HasSubstr("user-ann       revoked"));
  EXPECT_THAT(out(), HasSubstr("worker-node-b  valid"));
}

TEST_F(CaTest, WorkersOfAnyNameShareACertificateIfAsked) {
  ASSERT_EQ(Run({"ca", "init", Folder()}), kOk) << err();
  EXPECT_EQ(Run({"ca", "issue", Folder(), "--any-worker", "--worker", "node-a"}), kOk) << err();
  EXPECT_EQ(Run({"ca", "list", Folder(), "-o", "json"}), kOk);
  EXPECT_THAT(Shown("name"), ElementsAre("worker-node-a", "worker"));
  EXPECT_THAT(Shown("alternative_names"),
              ElementsAre("URI:spiffe://stretto.local/stretto/worker/node-a",
                          "URI:spiffe://stretto.local/stretto/worker"));
  EXPECT_TRUE(std::filesystem::exists(Folder() + "/worker.key"));
  // By its own name alone.
  EXPECT_EQ(Run({"ca", "revoke", Folder(), "worker"}), kOk) << err();
  EXPECT_EQ(Run({"ca", "list", Folder(), "-o", "json"}), kOk);
  EXPECT_THAT(Shown("state"), ElementsAre("valid", "revoked"));
}

TEST_F(CaTest, NothingIsIssuedIfOneNameIsWrong) {
  Init();
  EXPECT_EQ(Run({"ca", "issue", Folder(), "--worker", "a", "--user", "bob/boss"}), kError);
  ExpectMessage({"--user", "\"bob/boss\"", "NAME[/ROLE/PROJECT]"});
  EXPECT_EQ(Run({"ca", "issue", Folder(), "--coordinator-host", "a:7070"}), kError);
  ExpectMessage({"--coordinator-host", "\"a:7070\"", "without a port"});
  EXPECT_EQ(Run({"ca", "issue", Folder()}), kError);
  ExpectMessage({"--coordinator-host", "--worker", "--any-worker", "--user"});
  EXPECT_EQ(Run({"ca", "issue", Folder(), "--user", "bob", "--days", "826"}), kUsage);
  ExpectMessage({"--days", "826", "825"});
  EXPECT_EQ(Run({"ca", "revoke", Folder(), "user-bob", "--reason", "anger"}), kUsage);
  ExpectMessage({"\"anger\"", "keyCompromise"});
  EXPECT_EQ(Run({"ca", "revoke", Folder(), "user-bob"}), kError);
  ExpectMessage({"\"user-bob\"", "stretto ca list"});
  EXPECT_EQ(Run({"ca", "rotate", Folder(), "user-bob"}), kError);
  ExpectMessage({"\"user-bob\"", "stretto ca list"});
  EXPECT_EQ(Run({"ca", "list", dir_ + "/nothing"}), kError);
  ExpectMessage({dir_ + "/nothing", "stretto ca init"});
  EXPECT_TRUE(States(now_).empty());
}

TEST_F(CaTest, RotateRenewsWhatIsDue) {
  Init();
  ASSERT_EQ(IssueCertificates(terminal_, {.folder = Folder(), .workers = {"a", "b"}, .days = 30},
                              OutputFormat::kTable, now_),
            kOk);
  ASSERT_EQ(IssueCertificates(terminal_, {.folder = Folder(), .users = {"ann"}, .days = 90},
                              OutputFormat::kTable, now_),
            kOk);
  ASSERT_EQ(RevokeCertificates(terminal_, Folder(), {"worker-b"}, "unspecified",
                               OutputFormat::kTable, now_),
            kOk);
  err_.str("");
  EXPECT_EQ(RotateCertificates(terminal_, Folder(), {}, 0, OutputFormat::kTable, now_), kOk);
  EXPECT_THAT(err(), HasSubstr("no certificate is due"));
  EXPECT_THAT(States(now_ + 25 * kDay), ElementsAre("due", "revoked", "valid"));
  const std::string before = *ReadFile(Folder() + "/worker-a.crt");
  EXPECT_EQ(Rotate({}, now_ + 25 * kDay), kOk) << err();
  EXPECT_THAT(Shown("name"), ElementsAre("worker-a"));
  EXPECT_THAT(Shown("end_time"), ElementsAre("2027-03-11T08:00:00Z"));  // 30 days, as before
  EXPECT_NE(*ReadFile(Folder() + "/worker-a.crt"), before);
  EXPECT_THAT(States(now_ + 25 * kDay), ElementsAre("replaced", "revoked", "valid", "valid"));
  EXPECT_THAT(States(now_ + 31 * kDay), ElementsAre("expired", "revoked", "valid", "valid"));
  // By name: also what is not due.
  EXPECT_EQ(Rotate({"user-ann"}, now_, 7), kOk) << err();
  EXPECT_THAT(Shown("end_time"), ElementsAre("2027-01-22T08:00:00Z"));
}

}  // namespace
}  // namespace stretto::cli
