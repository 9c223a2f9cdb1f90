// SPDX-License-Identifier: Apache-2.0

// The file is taken as a whole or not at all. Good tokens are remembered by their digest, because a
// signature takes longer to verify than all else that authorizes a call; so what is compared while
// one is looked up tells nothing about another.

#include "proto/tls/tokens.h"

#include <openssl/sha.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "proto/tls/file_version.h"

namespace stretto::tls {
namespace {

using TokensJson = nlohmann::ordered_json;

constexpr int64_t kMostTokensBytes = 4 << 20;  // about 50,000 revoked tokens
constexpr size_t kMostTokenKeys = 16;
constexpr size_t kMostVerified = 4096;
constexpr size_t kKeyBytes = 32;

absl::Status NoTokens(absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "found ", found, ", expected the keys and revoked tokens that `stretto ca token` writes"));
}

std::string MemberText(const TokensJson& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::StatusOr<TokenKey> ParseTokenKey(const TokensJson& object) {
  std::string bytes;
  if (MemberText(object, "kty") != "OKP" || MemberText(object, "crv") != "Ed25519" ||
      !absl::WebSafeBase64Unescape(MemberText(object, "x"), &bytes) || bytes.size() != kKeyBytes) {
    return NoTokens("a key that is not of Ed25519");
  }
  TokenKey key = MakeTokenKey(std::move(bytes));
  if (key.id == MemberText(object, "kid")) return key;
  return NoTokens("a key whose kid is not its thumbprint");
}

absl::StatusOr<RevokedToken> ParseRevokedToken(const TokensJson& object) {
  RevokedToken revoked{.id = MemberText(object, "jti"), .end = absl::InfinitePast()};
  const auto end = object.is_object() ? object.find("exp") : object.end();
  if (end != object.end() && end->is_number_integer()) {
    revoked.end = absl::FromUnixSeconds(end->get<int64_t>());
  }
  if (!revoked.id.empty() && revoked.end != absl::InfinitePast()) return revoked;
  return NoTokens("a revoked token without id or end");
}

absl::StatusOr<TokensFile> ReadTokens(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMostTokensBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("--tokens: ", text.status().message()));
  }
  absl::StatusOr<TokensFile> file = ParseTokens(*text);
  if (file.ok()) return file;
  return absl::Status(file.status().code(),
                      absl::StrCat("--tokens ", path, ": ", file.status().message()));
}

std::string DigestOf(absl::string_view token) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

absl::Status BadNow(const TokenClaims& claims, absl::string_view found) {
  return absl::UnauthenticatedError(
      absl::StrCat("token ", claims.id, " of ", claims.holder.name, ": found it ", found,
                   ", expected one that is valid; ask for a new one"));
}

std::string SecondText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

}  // namespace

std::string TokensText(const TokensFile& file) {
  TokensJson text = {{"keys", TokensJson::array()}, {"revoked", TokensJson::array()}};
  for (const TokenKey& key : file.keys) {
    text["keys"].push_back({{"crv", "Ed25519"},
                            {"kid", key.id},
                            {"kty", "OKP"},
                            {"x", absl::WebSafeBase64Escape(key.bytes)}});
  }
  for (const RevokedToken& token : file.revoked) {
    text["revoked"].push_back({{"exp", absl::ToUnixSeconds(token.end)}, {"jti", token.id}});
  }
  return text.dump(/*indent=*/1) + "\n";
}

absl::StatusOr<TokensFile> ParseTokens(absl::string_view text) {
  const auto parsed =
      TokensJson::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  const auto list = [&](const char* name) {
    const auto found = parsed.is_object() ? parsed.find(name) : parsed.end();
    return found != parsed.end() && found->is_array() ? *found : TokensJson();
  };
  const TokensJson keys = list("keys"), revoked = list("revoked");
  if (keys.is_null() || revoked.is_null()) return NoTokens("no JSON, or none with both lists");
  if (keys.empty() || keys.size() > kMostTokenKeys) {
    return NoTokens(absl::StrCat(keys.size(), " keys, of at most ", kMostTokenKeys));
  }
  TokensFile file;
  for (const TokensJson& one : keys) {
    ASSIGN_OR_RETURN(TokenKey key, ParseTokenKey(one));
    file.keys.push_back(std::move(key));
  }
  for (const TokensJson& one : revoked) {
    ASSIGN_OR_RETURN(RevokedToken token, ParseRevokedToken(one));
    file.revoked.push_back(std::move(token));
  }
  return file;
}

struct Tokens::Impl {
  explicit Impl(std::string file) : path(std::move(file)) {}

  void Take(TokensFile file) REQUIRES(mu) {
    keys = std::move(file.keys);
    verified.clear();
    revoked.clear();
    for (RevokedToken& token : file.revoked) revoked.insert(std::move(token.id));
  }

  const std::string path;
  FileVersion version = {};  // of what was read last

  mutable Mutex mu;
  std::vector<TokenKey> keys GUARDED_BY(mu);
  std::unordered_set<std::string> revoked GUARDED_BY(mu);  // ids
  absl::Status status GUARDED_BY(mu);
  mutable std::unordered_map<std::string, TokenClaims> verified GUARDED_BY(mu);  // by digest
};

Tokens::Tokens(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokens::~Tokens() = default;

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Open(const std::string& path) {
  auto impl = std::make_unique<Impl>(path);
  // Before it is read: a change meanwhile is read by the next Refresh.
  impl->version = VersionOf(path);
  ASSIGN_OR_RETURN(TokensFile file, ReadTokens(path));
  {
    const MutexLock lock(impl->mu);
    impl->Take(std::move(file));
  }
  return std::unique_ptr<Tokens>(new Tokens(std::move(impl)));
}

bool Tokens::Refresh() {
  const FileVersion version = VersionOf(impl_->path);
  if (version == impl_->version) return false;
  impl_->version = version;
  absl::StatusOr<TokensFile> file = ReadTokens(impl_->path);
  const MutexLock lock(impl_->mu);
  impl_->status = file.status();
  if (file.ok()) impl_->Take(*std::move(file));
  return true;
}

absl::Status Tokens::status() const {
  const MutexLock lock(impl_->mu);
  return impl_->status;
}

int Tokens::revoked() const {
  const MutexLock lock(impl_->mu);
  return static_cast<int>(impl_->revoked.size());
}

absl::StatusOr<TokenClaims> Tokens::Verify(absl::string_view token) const {
  std::string digest = DigestOf(token);
  std::vector<TokenKey> keys;
  {
    const MutexLock lock(impl_->mu);
    const auto found = impl_->verified.find(digest);
    if (found != impl_->verified.end()) return found->second;
    keys = impl_->keys;
  }
  ASSIGN_OR_RETURN(TokenClaims claims, VerifyToken(token, keys));
  const MutexLock lock(impl_->mu);
  if (impl_->verified.size() >= kMostVerified) impl_->verified.clear();
  // Also if the keys have changed meanwhile: Check asks for the key of the claims.
  impl_->verified.emplace(std::move(digest), claims);
  return claims;
}

absl::Status Tokens::Check(const TokenClaims& claims, absl::Time now) const {
  if (now >= claims.end) return BadNow(claims, absl::StrCat("expired at ", SecondText(claims.end)));
  if (now < claims.begin) {
    return BadNow(claims, absl::StrCat("not valid before ", SecondText(claims.begin)));
  }
  const MutexLock lock(impl_->mu);
  if (impl_->revoked.count(claims.id) > 0) return BadNow(claims, "revoked");
  for (const TokenKey& key : impl_->keys) {
    if (key.id == claims.key) return absl::OkStatus();
  }
  return BadNow(claims, "signed by a key that has been taken back");
}

}  // namespace stretto::tls
