// SPDX-License-Identifier: Apache-2.0

// `stretto ca token ...`: what is shown, and what is refused; and commands that call with a token.

#include "coordinator/cli/commands/token_commands.h"

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

class TokenCommandsTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(Run({"ca", "init", Folder(), "--name", "CA of lab"}), kOk) << err();
  }
  std::string Folder() const { return dir_ + "/tls"; }
  std::vector<std::string> Shown(const std::string& key) const {
    std::vector<std::string> values;
    const auto document = nlohmann::json::parse(out());
    for (const auto& one : document["tokens"]) values.push_back(one[key].get<std::string>());
    return values;
  }
  std::vector<std::string> States(absl::Time at) {
    out_.str("");
    EXPECT_EQ(ListTokens(terminal_, Folder(), OutputFormat::kJson, at), kOk) << err();
    return Shown("state");
  }

  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000);
};

TEST_F(TokenCommandsTest, IssueListAndRevoke) {
  EXPECT_EQ(Run({"ca", "token", "issue", Folder(), "--user", "ann/submitter/speech", "bob"}), kOk)
      << err();
  ExpectMessage({Folder() + "/token.key", "--tokens " + Folder() + "/tokens",
                 Folder() + "/user-ann.token", "user-bob"});
  EXPECT_THAT(out(), HasSubstr("user-ann  valid"));
  EXPECT_THAT(out(), HasSubstr("spiffe://stretto.local/stretto/user/ann/submitter/speech"));
  const std::string token = *ReadFile(Folder() + "/user-ann.token");
  EXPECT_THAT(token, testing::StartsWith("eyJ"));
  for (const std::string& printed : {out(), err()}) EXPECT_THAT(printed, Not(HasSubstr("eyJ")));
  EXPECT_EQ(Run({"ca", "token", "issue", Folder(), "--user", "ann/viewer", "--days", "7"}), kOk);
  EXPECT_THAT(err(), Not(HasSubstr("token.key")));
  EXPECT_EQ(Run({"ca", "token", "list", Folder(), "-o", "json"}), kOk);
  EXPECT_THAT(Shown("name"), ElementsAre("user-ann", "user-bob", "user-ann"));
  EXPECT_THAT(Shown("state"), ElementsAre("valid", "valid", "valid"));
  const std::string id = Shown("id")[2];
  EXPECT_EQ(Run({"ca", "token", "revoke", Folder(), id, "--reason", "keyCompromise"}), kOk);
  ExpectMessage({Folder() + "/tokens", "--tokens"});
  EXPECT_THAT(out(), HasSubstr("revoked"));
  EXPECT_THAT(out(), Not(HasSubstr("bob")));
  EXPECT_EQ(Run({"ca", "token", "revoke", Folder(), "user-ann"}), kOk);
  EXPECT_EQ(Run({"ca", "token", "list", Folder(), "-o", "json"}), kOk);
  EXPECT_THAT(Shown("state"), ElementsAre("revoked", "valid", "revoked"));
}

TEST_F(TokenCommandsTest, WhatIsOverIsShownAsExpired) {
  ASSERT_EQ(IssueTokens(terminal_, Folder(), {"ann"}, 30, OutputFormat::kTable, now_), kOk);
  EXPECT_THAT(States(now_ + absl::Hours(24 * 29)), ElementsAre("valid"));
  EXPECT_THAT(States(now_ + absl::Hours(24 * 30)), ElementsAre("expired"));
}

TEST_F(TokenCommandsTest, NothingIsMadeIfSomethingIsWrong) {
  EXPECT_EQ(Run({"ca", "token", "list", Folder()}), kError);
  ExpectMessage({Folder(), "stretto ca token issue"});
  EXPECT_EQ(Run({"ca", "token", "revoke", Folder(), "user-bob"}), kError);
  ExpectMessage({Folder(), "stretto ca token issue"});
  EXPECT_EQ(Run({"ca", "token", "issue", Folder(), "--user", "ann", "bob/boss"}), kError);
  ExpectMessage({"--user", "\"bob/boss\"", "NAME[/ROLE/PROJECT]"});
  EXPECT_FALSE(std::filesystem::exists(Folder() + "/token.key"));
  EXPECT_EQ(Run({"ca", "token", "issue", Folder()}), kUsage);
  ExpectMessage({"--user"});
  EXPECT_EQ(Run({"ca", "token", "issue", Folder(), "--user", "ann", "--days", "367"}), kUsage);
  ExpectMessage({"--days", "367", "366"});
  EXPECT_EQ(Run({"ca", "token", "issue", dir_ + "/none", "--user", "ann"}), kError);
  ExpectMessage({dir_ + "/none", "stretto ca init"});
  ASSERT_EQ(Run({"ca", "token", "issue", Folder(), "--user", "ann"}), kOk);
  EXPECT_EQ(Run({"ca", "token", "revoke", Folder(), "user-an"}), kError);
  ExpectMessage({"\"user-an\"", "\"user-ann\"", "stretto ca token list"});
  EXPECT_EQ(Run({"ca", "token", "revoke", Folder(), "user-ann", "--reason", "anger"}), kUsage);
  ExpectMessage({"\"anger\"", "keyCompromise"});
  EXPECT_EQ(Run({"ca", "tokn"}), kUsage);
  ExpectMessage({"\"tokn\"", "\"token\""});
}

TEST_F(TokenCommandsTest, ATokenIsSentOnlyToACoordinatorWithTls) {
  ASSERT_EQ(Run({"ca", "token", "issue", Folder(), "--user", "ann"}), kOk);
  const std::string token = Folder() + "/user-ann.token";
  EXPECT_EQ(Run({"job", "list", "--token-file", token}), kError);
  ExpectMessage({"--token-file alone", "--tls-ca"});
  // A plain coordinator gets none: the handshake fails first.
  EXPECT_EQ(Run({"job", "list", "--tls-ca", Folder() + "/ca.crt", "--token-file", token}), kError);
  EXPECT_THAT(err(), HasSubstr("it does not speak TLS"));
  EXPECT_EQ(Run({"job", "list", "--tls-ca", Folder() + "/ca.crt", "--token-file", file_}), kError);
  EXPECT_THAT(err(), HasSubstr("--token-file "));
  EXPECT_THAT(err(), Not(HasSubstr("gpt-tiny"))) << "what is in the file";
}

}  // namespace
}  // namespace stretto::cli
