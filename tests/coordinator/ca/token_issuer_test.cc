// SPDX-License-Identifier: Apache-2.0

// Tokens that are made in a folder, judged by what the coordinator asks about them: tls::Tokens.

#include "coordinator/ca/token_issuer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "coordinator/ca/authority.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/tls/files.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::ca {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kOneDay = absl::Hours(24);

class TokenIssuerTest : public ::testing::Test {
 protected:
  TokenIssuer Open() const {
    absl::StatusOr<TokenIssuer> opened = TokenIssuer::Open(folder_, now_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  std::string OpenFault() const {
    return std::string(TokenIssuer::Open(folder_, now_).status().message());
  }
  Issued Issue(TokenIssuer& issuer, const std::string& user = "alice/submitter/speech") const {
    const absl::StatusOr<Issued> issued =
        issuer.Issue(UserHolder(user).value(), 30 * kOneDay, now_);
    EXPECT_TRUE(issued.ok()) << issued.status();
    return *issued;
  }
  // What a coordinator says of the token in the file at this time; "" if it counts.
  std::string Judge(const std::string& file, absl::Time at) const {
    const auto tokens = tls::Tokens::Open(Path("tokens"));
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    const auto token = tls::ReadTokenFile(tls::kTokenFlag, Path(file));
    EXPECT_TRUE(token.ok()) << token.status();
    const auto claims = (*tokens)->Verify(*token);
    if (!claims.ok()) return std::string(claims.status().message());
    return std::string((*tokens)->Check(*claims, at).message());
  }
  std::string Path(const std::string& file) const { return folder_ + "/" + file; }
  std::string Content(const std::string& file) const { return ReadFile(Path(file)).value_or(""); }
  unsigned Mode(const std::string& file) const {
    struct stat info = {};
    EXPECT_EQ(stat(Path(file).c_str(), &info), 0) << file;
    return info.st_mode & 0777u;
  }

  daemon::TempDir dir_;
  const std::string folder_ = dir_.path();
  const absl::Time now_ = absl::FromUnixSeconds(1'800'000'000) + absl::Milliseconds(7);
};

TEST_F(TokenIssuerTest, ItsTokensCountForACoordinatorWithItsFile) {
  {
    TokenIssuer issuer = Open();
    EXPECT_TRUE(issuer.made_key());
    const Issued issued = Issue(issuer);
    EXPECT_EQ(issued.name, "user-alice");
    EXPECT_EQ(issued.end, absl::FromUnixSeconds(1'800'000'000) + 30 * kOneDay);
    EXPECT_EQ(issued.serial.size(), 32u);
  }
  for (const char* file : {"token.key", "user-alice.token", "token-index"}) {
    EXPECT_EQ(Mode(file), 0600u) << file;
  }
  EXPECT_EQ(Judge("user-alice.token", now_), "");
  EXPECT_EQ(Judge("user-alice.token", now_ - kBackdate), "") << "a clock that is behind";
  EXPECT_THAT(Judge("user-alice.token", now_ - 2 * kBackdate), HasSubstr("not valid before"));
  EXPECT_THAT(Judge("user-alice.token", now_ + 30 * kOneDay), HasSubstr("expired at"));
  // The key is the same the next time, and the earlier token still counts.
  const std::string first = Content("user-alice.token");
  TokenIssuer issuer = Open();
  EXPECT_FALSE(issuer.made_key());
  Issue(issuer, "alice/viewer");
  EXPECT_NE(Content("user-alice.token"), first);
  ASSERT_TRUE(WritePrivateFile(Path("first.token"), first).ok());
  EXPECT_EQ(Judge("first.token", now_), "");
  EXPECT_EQ(Judge("user-alice.token", now_), "");
}

TEST_F(TokenIssuerTest, RevokedTokensAreInTheFileUntilTheyEnd) {
  TokenIssuer issuer = Open();
  const Issued first = Issue(issuer), second = Issue(issuer, "bob/viewer");
  auto revoked = issuer.Revoke("user-alice", "keyCompromise", now_);
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  ASSERT_EQ(revoked->size(), 1u);
  EXPECT_EQ(revoked->at(0).serial, first.serial);
  EXPECT_EQ(revoked->at(0).reason, "keyCompromise");
  EXPECT_THAT(Judge("user-alice.token", now_), HasSubstr("revoked"));
  EXPECT_EQ(Judge("user-bob.token", now_), "");
  EXPECT_TRUE(issuer.Revoke(second.serial, "unspecified", now_).ok());
  EXPECT_THAT(Judge("user-bob.token", now_), HasSubstr("revoked"));
  EXPECT_THAT(Content("tokens"), HasSubstr(first.serial));
  const absl::Status unknown = issuer.Revoke("user-alic", "unspecified", now_).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(unknown.message(),
            absl::StrCat("found no valid token with the name or the id \"user-alic\" in ",
                         Path("token-index"), ", expected one that `stretto ca token list ",
                         folder_, "` shows; did you mean \"user-alice\"?"));
}

TEST_F(TokenIssuerTest, TheListForgetsWhatIsOver) {
  std::string serial;
  {
    TokenIssuer issuer = Open();
    serial = Issue(issuer).serial;
    ASSERT_TRUE(issuer.Revoke("user-alice", "unspecified", now_).ok());
  }
  const auto opened_at = [&](absl::Time at) {
    EXPECT_TRUE(TokenIssuer::Open(folder_, at).ok());
    return Content("tokens").find(serial) != std::string::npos;
  };
  EXPECT_TRUE(opened_at(now_ + 30 * kOneDay));
  EXPECT_FALSE(opened_at(now_ + 30 * kOneDay + 2 * kBackdate));
  EXPECT_EQ(ReadTokenIndex(folder_)->issued.size(), 1u) << "the record keeps it";
}

// As after the theft of a key.
TEST_F(TokenIssuerTest, WithoutItsKeyANewOneIsMadeAndTheOldTokensEnd) {
  {
    TokenIssuer issuer = Open();
    Issue(issuer);
    Issue(issuer, "bob/viewer");
  }
  std::filesystem::remove(Path("token.key"));
  TokenIssuer issuer = Open();
  EXPECT_TRUE(issuer.made_key());
  EXPECT_THAT(Judge("user-alice.token", now_), HasSubstr("no key of this coordinator has signed"));
  Issue(issuer);
  EXPECT_EQ(Judge("user-alice.token", now_), "");
  EXPECT_NE(Judge("user-bob.token", now_), "");
}

TEST_F(TokenIssuerTest, ACrashLosesNothing) {
  std::string serial;
  {
    TokenIssuer issuer = Open();
    serial = Issue(issuer).serial;
    ASSERT_TRUE(issuer.Revoke("user-alice", "unspecified", now_).ok());
  }
  // After the record of the revocation, before the coordinator's file; and a line that is cut off.
  std::filesystem::remove(Path("tokens"));
  std::ofstream(Path("token-index"), std::ios::app) << "2026-11-26T09:30:00Z issu";
  TokenIssuer issuer = Open();
  EXPECT_THAT(Content("tokens"), HasSubstr(serial));
  Issue(issuer, "bob/viewer");
  const auto index = ReadTokenIndex(folder_);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->issued.size(), 2u);
}

TEST_F(TokenIssuerTest, DamagedFilesAreNamed) {
  EXPECT_THAT(std::string(ReadTokenIndex(folder_).status().message()),
              HasSubstr(absl::StrCat("found no tokens in ", folder_, ", expected its file")));
  EXPECT_EQ(TokenIssuer::Open(folder_ + "/none", now_).status().message(),
            absl::StrCat("found no folder ", folder_,
                         "/none, expected that of a CA; `stretto ca "
                         "init ",
                         folder_, "/none` makes one"));
  { Open(); }
  ASSERT_EQ(chmod(Path("token.key").c_str(), 0644), 0);
  EXPECT_THAT(OpenFault(), HasSubstr(Path("token.key") + ": found mode 0644"));
  // A key of another kind, as that of a CA.
  const absl::StatusOr<Minted> ca = MintCa("test CA", now_, now_ + kOneDay);
  for (const std::string& text : {std::string("nothing"), ca->key}) {
    ASSERT_TRUE(WritePrivateFile(Path("token.key"), text).ok());
    EXPECT_THAT(OpenFault(), HasSubstr(Path("token.key") + ": found no private key of Ed25519"));
  }
  ASSERT_TRUE(WriteFileAtomic(Path("token-index"), "something else\n").ok());
  EXPECT_THAT(OpenFault(), HasSubstr(Path("token-index") + ":1: found \"something else\""));
}

TEST_F(TokenIssuerTest, ATokenThatNoCoordinatorWouldTakeIsNotMade) {
  std::string user = "alice";
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&user, "/submitter/project-", i, std::string(40, 'x'));
  }
  TokenIssuer issuer = Open();
  const absl::Status status = issuer.Issue(UserHolder(user).value(), 30 * kOneDay, now_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("expected at most ", limits::kTokenBytes.value)));
  EXPECT_TRUE(issuer.issued().empty());
  EXPECT_FALSE(std::filesystem::exists(Path("user-alice.token")));
}

}  // namespace
}  // namespace stretto::ca
