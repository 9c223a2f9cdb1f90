// SPDX-License-Identifier: Apache-2.0

// Tokens of users, and above all those that do not count.

#include "proto/tls/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/tls/callers.h"
#include "proto/tls/files.h"
#include "proto/tls/tokens.h"
#include "tests/proto/tls/certificates.h"
#include "tests/proto/tls/token_keys.h"
#include "tests/worker/daemon/temp_dir.h"

namespace stretto::tls {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kHour = absl::Hours(1);

class TokenTest : public ::testing::Test {
 protected:
  std::string Token(const std::string& user = "alice/submitter/speech", int number = 1) const {
    return key_.Token(user, kNow - kHour, kNow + kHour, number);
  }
  absl::StatusOr<TokenClaims> Verify(const std::string& token) const {
    return VerifyToken(token, {other_.key(), key_.key()});
  }
  // Refused, without a word of it in the message.
  void ExpectRefused(const std::string& token, const std::string& found) const {
    const absl::Status status = Verify(token).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << token;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("token: found "));
    EXPECT_THAT(message, HasSubstr(found)) << token;
    EXPECT_THAT(message, HasSubstr(", expected "));
    if (token.size() > 16) {
      EXPECT_THAT(message, Not(HasSubstr(token.substr(0, 16))));
    }
  }
  std::string Write(const TokensFile& file) const {
    EXPECT_TRUE(WriteFileAtomic(path_, TokensText(file)).ok());
    return path_;
  }
  static std::string Fault(const absl::Status& status) { return std::string(status.message()); }

  daemon::TempDir dir_;
  const std::string path_ = dir_.path() + "/tokens";
  const TestTokenKey key_, other_;
};

constexpr char kNotSigned[] = "one that no key of this coordinator has signed";

TEST_F(TokenTest, SaysWhoHasWhichRolesForHowLong) {
  const auto claims = Verify(Token());
  ASSERT_TRUE(claims.ok()) << claims.status();
  EXPECT_EQ(claims->id, TokenId(1));
  EXPECT_EQ(claims->key, key_.key().id);
  EXPECT_EQ(claims->holder.name, "alice");
  EXPECT_EQ(claims->holder.grants, (std::vector<Grant>{{UserRole::kSubmitter, "speech"}}));
  EXPECT_EQ(claims->begin, kNow - kHour);
  EXPECT_EQ(claims->end, kNow + kHour);
}

// As any library of JWTs reads it.
TEST_F(TokenTest, IsAJsonWebToken) {
  const std::string token = Token();
  std::vector<std::string> parts = absl::StrSplit(token, '.');
  ASSERT_EQ(parts.size(), 3u);
  for (int i : {0, 1}) {
    std::string text;
    ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[i], &text));
    parts[i] = text;
  }
  EXPECT_EQ(Json::parse(parts[0]),
            (Json{{"alg", "EdDSA"}, {"typ", "JWT"}, {"kid", key_.key().id}}));
  EXPECT_EQ(Json::parse(parts[1]),
            (Json{{"aud", "stretto"},
                  {"sub", "spiffe://test/stretto/user/alice/submitter/speech"},
                  {"jti", TokenId(1)},
                  {"iat", 1'799'996'400},
                  {"nbf", 1'799'996'400},
                  {"exp", 1'800'003'600}}));
}

// The key and its thumbprint of RFC 8037, appendix A.3.
TEST_F(TokenTest, TheIdOfAKeyIsItsThumbprint) {
  std::string bytes;
  ASSERT_TRUE(absl::WebSafeBase64Unescape("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", &bytes));
  EXPECT_EQ(MakeTokenKey(bytes).id, "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
}

TEST_F(TokenTest, AnyChangedCharacterIsRefused) {
  const std::string token = Token();
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'Q' : 'A';
    // The last character of a signature has bits that are none of it.
    if (i + 1 == token.size()) continue;
    EXPECT_FALSE(Verify(changed).ok()) << i;
  }
  for (size_t i = 0; i < token.size(); i += 7) ExpectRefused(token.substr(0, i), kNotSigned);
}

TEST_F(TokenTest, OnlyAKnownKeyWithItsAlgorithmCounts) {
  const std::string token = Token();
  const std::string claims = token.substr(token.find('.') + 1);
  const auto with_header = [&](const Json& header) {
    return absl::StrCat(absl::WebSafeBase64Escape(header.dump()), ".", claims);
  };
  EXPECT_TRUE(Verify(token).ok());
  EXPECT_FALSE(VerifyToken(token, {other_.key()}).ok());
  EXPECT_FALSE(VerifyToken(token, {}).ok());
  const std::string id = key_.key().id;
  for (const Json& header :
       {Json{{"alg", "none"}, {"kid", id}, {"typ", "JWT"}}, Json{{"alg", "HS256"}, {"kid", id}},
        Json{{"alg", "EdDSA"}, {"kid", other_.key().id}, {"typ", "JWT"}},
        Json{{"alg", "EdDSA"}, {"jwk", key_.key().bytes.size()}}, Json()}) {
    ExpectRefused(with_header(header), kNotSigned);
    // Also with a signature of that.
    const std::string text = with_header(header);
    ExpectRefused(key_.Sign(text.substr(0, text.rfind('.'))), kNotSigned);
  }
  ExpectRefused(token.substr(0, token.rfind('.') + 1), kNotSigned);
  for (const char* text : {"", ".", "..", "a.b.c", "...."}) ExpectRefused(text, kNotSigned);
}

TEST_F(TokenTest, ALongTokenIsRefusedUnread) {
  const auto most = static_cast<size_t>(limits::kTokenBytes.value);
  ExpectRefused(std::string(most + 1, 'a'), "4097 bytes, expected at most 4096");
  ExpectRefused(std::string(most, 'a'), kNotSigned);
}

// What a key of ours has signed, but for something else.
TEST_F(TokenTest, ClaimsOfAnythingButAUserAreRefused) {
  const Json good = {{"aud", "stretto"},
                     {"sub", "spiffe://test/stretto/user/alice"},
                     {"jti", TokenId(1)},
                     {"nbf", 0},
                     {"exp", 1}};
  EXPECT_TRUE(Verify(key_.SignClaims(good.dump())).ok());
  const auto refused = [&](const char* claim, const Json& value, const std::string& found) {
    Json changed = good;
    changed[claim] = value;
    ExpectRefused(key_.SignClaims(changed.dump()), found);
    changed.erase(claim);
    ExpectRefused(key_.SignClaims(changed.dump()), "token: found ");
  };
  refused("aud", "another", "one for another service");
  refused("aud", Json::array({"stretto"}), "one for another service");
  refused("jti", "short", "no id");
  refused("jti", std::string(32, 'x'), "no id");
  for (const char* time : {"nbf", "exp"}) {
    for (const Json& value :
         {Json("1800000000"), Json(1.5), Json(-1), Json(INT64_MAX), Json(UINT64_MAX), Json()}) {
      refused(time, value, absl::StrCat("no claim ", time));
    }
  }
  for (const char* uri : {"spiffe://test/stretto/worker/node-a", "spiffe://test/stretto/worker",
                          "spiffe://test/stretto/coordinator", "spiffe://test/stretto/user/local",
                          "spiffe://test/stretto/user/bob/boss", "alice", ""}) {
    refused("sub", uri, "the claim sub of no user");
  }
  for (const char* claims : {"", "[]", "{", "null", "\"sub\"", "\xff"}) {
    ExpectRefused(key_.SignClaims(claims), "no claims");
  }
}

TEST_F(TokenTest, ItsFileIsForItsHolderAlone) {
  const std::string path = dir_.path() + "/alice.token";
  const auto fault = [&](const std::string& content, mode_t mode = 0600) {
    EXPECT_TRUE(WriteFileAtomic(path, content).ok());
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    const auto token = ReadTokenFile(kTokenFlag, path);
    return token.ok() ? "" : std::string(token.status().message());
  };
  const std::string token = Token();
  EXPECT_EQ(fault(token + "\n"), "");
  EXPECT_EQ(*ReadTokenFile(kTokenFlag, path), token);
  EXPECT_EQ(fault(token, 0640), "");
  EXPECT_EQ(fault(token, 0604),
            absl::StrCat("--token-file ", path,
                         ": found mode 0604, which lets everybody on this machine have the token; "
                         "expected 0600, or 0640 for a group"));
  for (const std::string& text : {std::string(), std::string("secret"), token + "\n" + token,
                                  token + "\r\nx: y", std::string("a.b.c.d")}) {
    EXPECT_EQ(fault(text),
              absl::StrCat("--token-file ", path,
                           ": found no token, expected the one line that `stretto ca token issue` "
                           "writes"));
  }
  EXPECT_THAT(fault(std::string(5000, 'a')), HasSubstr(path));
  EXPECT_THAT(Fault(ReadTokenFile(kTokenFlag, "/no/such").status()),
              HasSubstr("--token-file: open /no/such"));
}

TEST_F(TokenTest, FilesOfAClientHaveATokenOrACertificate) {
  const TestCa ca;
  const Files user = ca.Write(dir_.path(), "user", kUserCertificate);
  const std::string token = dir_.path() + "/alice.token";
  ASSERT_TRUE(WritePrivateFile(token, Token()).ok());
  const auto fault = [](const Files& files, Role role = Role::kUser) {
    return Fault(CheckFiles(files, role, absl::Now()).status());
  };
  const Files good{.ca = user.ca, .token = token};
  EXPECT_EQ(fault(good), "");
  EXPECT_FALSE(Files{.token = token}.empty());
  EXPECT_EQ(fault(good, Role::kWorker),
            "TLS: found --token-file, expected --tls-certificate and --tls-key of a worker");
  EXPECT_EQ(fault({.token = token}),
            "TLS: found --token-file alone, expected --tls-ca with it: a token is sent only to a "
            "coordinator that proves who it is");
  Files both = user;
  both.token = token;
  EXPECT_EQ(fault(both),
            "TLS: found --token-file beside --tls-certificate, expected either the one "
            "or --tls-certificate and --tls-key");
  EXPECT_THAT(fault({.ca = token, .token = token}), HasSubstr("none of a CA"));
  EXPECT_THAT(fault({.ca = user.ca, .token = user.key}), HasSubstr("found no token"));
}

TEST_F(TokenTest, TheCoordinatorsFileIsTakenWholeOrNotAtAll) {
  const TokensFile file{.keys = {key_.key(), other_.key()}, .revoked = {{TokenId(3), kNow}}};
  const std::string good = TokensText(file);
  const auto parsed = ParseTokens(good);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->keys.size(), 2u);
  EXPECT_EQ(parsed->keys[1].bytes, other_.key().bytes);
  ASSERT_EQ(parsed->revoked.size(), 1u);
  EXPECT_EQ(parsed->revoked[0].id, TokenId(3));
  EXPECT_EQ(parsed->revoked[0].end, kNow);
  for (size_t i = 0; i + 2 < good.size(); ++i) {
    EXPECT_FALSE(ParseTokens(good.substr(0, i)).ok()) << "cut off at " << i;
  }
  const std::pair<const char*, const char*> changes[] = {
      {"\"keys\"", "\"kays\""}, {"\"revoked\"", "\"others\""}, {"Ed25519", "P-256"},
      {"\"OKP\"", "\"EC\""},    {"\"x\": \"", "\"x\": \"AA"},  {"\"kid\": \"", "\"kid\": \"A"},
      {"\"jti\"", "\"id\""},    {"\"exp\": ", "\"exp\": -0."}};
  for (const auto& [from, to] : changes) {
    const std::string changed = absl::StrReplaceAll(good, {{from, to}});
    ASSERT_NE(changed, good) << from;
    const absl::Status status = ParseTokens(changed).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << from;
    EXPECT_THAT(Fault(status), HasSubstr("that `stretto ca token` writes"));
  }
  EXPECT_THAT(Fault(ParseTokens(TokensText({})).status()), HasSubstr("found 0 keys"));
  EXPECT_THAT(Fault(Tokens::Open("/no/such").status()), HasSubstr("--tokens: open /no/such"));
  ASSERT_TRUE(WriteFileAtomic(path_, "{}").ok());
  EXPECT_THAT(Fault(Tokens::Open(path_).status()), HasSubstr("--tokens " + path_ + ": found no "));
}

TEST_F(TokenTest, CountsWhileItIsValidAndNotRevoked) {
  const auto tokens = Tokens::Open(Write({.keys = {key_.key()}, .revoked = {{TokenId(2), kNow}}}));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto fault = [&](int number, absl::Time at) {
    const auto claims = (*tokens)->Verify(Token("alice", number));
    EXPECT_TRUE(claims.ok()) << claims.status();
    return Fault((*tokens)->Check(*claims, at));
  };
  const std::string alice = absl::StrCat("token ", TokenId(1), " of alice: found it ");
  EXPECT_EQ(fault(1, kNow), "");
  EXPECT_EQ(fault(1, kNow - kHour), "");
  EXPECT_EQ(fault(1, kNow + kHour - absl::Nanoseconds(1)), "");
  EXPECT_EQ(fault(1, kNow + kHour), alice +
                                        "expired at 2027-01-15T09:00:00Z, expected one that is "
                                        "valid; ask for a new one");
  EXPECT_THAT(fault(1, kNow - 2 * kHour), HasSubstr("not valid before 2027-01-15T07:00:00Z"));
  EXPECT_THAT(fault(2, kNow), HasSubstr(TokenId(2) + " of alice: found it revoked"));
  EXPECT_EQ((*tokens)->revoked(), 1);
}

TEST_F(TokenTest, AFileThatChangesIsReadAgainAndOneThatIsDamagedIsNot) {
  const auto tokens = Tokens::Open(Write({.keys = {key_.key()}, .revoked = {}}));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const auto claims = (*tokens)->Verify(Token());
  ASSERT_TRUE(claims.ok()) << claims.status();
  const auto fault = [&] { return Fault((*tokens)->Check(*claims, kNow)); };
  EXPECT_FALSE((*tokens)->Refresh());
  Write({.keys = {key_.key()}, .revoked = {{TokenId(1), kNow + kHour}}});
  EXPECT_TRUE((*tokens)->Refresh());
  EXPECT_THAT(fault(), HasSubstr("revoked"));
  ASSERT_TRUE(WriteFileAtomic(path_, "{").ok());
  EXPECT_TRUE((*tokens)->Refresh());
  EXPECT_FALSE((*tokens)->status().ok());
  EXPECT_THAT(fault(), HasSubstr("revoked"));
  // A key that is taken back takes its tokens with it, also the ones that were verified before.
  Write({.keys = {other_.key()}, .revoked = {}});
  EXPECT_TRUE((*tokens)->Refresh());
  EXPECT_TRUE((*tokens)->status().ok());
  EXPECT_THAT(fault(), HasSubstr("signed by a key that has been taken back"));
  EXPECT_FALSE((*tokens)->Verify(Token()).ok());
}

TEST_F(TokenTest, ACallerShowsEitherACertificateOrOneToken) {
  const FakeClock clock(kNow);
  const std::shared_ptr<const Tokens> tokens =
      *Tokens::Open(Write({.keys = {key_.key()}, .revoked = {}}));
  const Callers callers(nullptr, tokens, clock), without(nullptr, nullptr, clock);
  const std::string bearer = "Bearer " + Token();
  const auto fault = [](const Callers& asked, const Shown& shown) {
    return Fault(asked.Identify(shown).status());
  };
  const auto caller = callers.Identify({.authorizations = {bearer}});
  ASSERT_TRUE(caller.ok()) << caller.status();
  EXPECT_EQ(caller->uris,
            std::vector<std::string>{"spiffe://test/stretto/user/alice/submitter/speech"});
  EXPECT_TRUE(callers.Check(caller->credential).ok());
  EXPECT_EQ(fault(callers, {.authorizations = {"bearer " + Token()}}), "");
  EXPECT_EQ(fault(callers, {.certificate = "c", .uris = {"u"}}), "");
  EXPECT_THAT(fault(callers, {}), HasSubstr("caller: found neither, expected either"));
  EXPECT_THAT(fault(callers, {.certificate = "c", .authorizations = {bearer}}),
              HasSubstr("a certificate and a header"));
  EXPECT_THAT(fault(callers, {.authorizations = {bearer, bearer}}), HasSubstr("2 headers"));
  for (const std::string& other :
       {Token(), "Basic " + Token(), std::string(), "Bearer" + Token()}) {
    EXPECT_THAT(fault(callers, {.authorizations = {other}}), HasSubstr("without a bearer token"));
  }
  EXPECT_THAT(fault(callers, {.authorizations = {"Bearer  " + Token()}}), HasSubstr(kNotSigned));
  // A coordinator that takes none leaves the header alone.
  EXPECT_EQ(fault(without, {.certificate = "c", .authorizations = {bearer}}), "");
  EXPECT_THAT(fault(without, {.authorizations = {bearer}}), HasSubstr("does not take"));
  EXPECT_FALSE(without.Check(caller->credential).ok());
  EXPECT_TRUE(callers.Check({}).ok());
}

}  // namespace
}  // namespace stretto::tls
