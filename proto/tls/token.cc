// SPDX-License-Identifier: Apache-2.0

// The header of a token is compared with the ones that our keys would have written, byte by byte.
// So a token cannot choose how it is verified, and a stranger's bytes reach no parser but the
// signature's. Claims are read as JSON afterwards, because somebody who may has signed them.

#include "proto/tls/token.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/tls/files.h"

namespace stretto::tls {
namespace {

using Claims = nlohmann::json;  // keys are in the order of the alphabet

constexpr char kAudience[] = "stretto";
constexpr size_t kSignatureBytes = 64;

std::string Base64(absl::string_view bytes) { return absl::WebSafeBase64Escape(bytes); }

std::string HeaderOf(const std::string& key) {
  return Base64(Claims{{"alg", "EdDSA"}, {"kid", key}, {"typ", "JWT"}}.dump());
}

absl::Status BadToken(absl::string_view found, absl::string_view expected) {
  return absl::UnauthenticatedError(absl::StrCat("token: found ", found, ", expected ", expected));
}

absl::Status NotSigned() {
  return BadToken("one that no key of this coordinator has signed",
                  "one of `stretto ca token issue`; ask for a new one");
}

bool HasSigned(const TokenKey& key, absl::string_view text, absl::string_view signature) {
  const auto bytes = [](absl::string_view view) {
    return reinterpret_cast<const unsigned char*>(view.data());
  };
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> public_key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes(key.bytes), key.bytes.size()),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const bool good =
      public_key != nullptr && context != nullptr &&
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) == 1 &&
      EVP_DigestVerify(context.get(), bytes(signature), signature.size(), bytes(text),
                       text.size()) == 1;
  ERR_clear_error();
  return good;
}

bool IsTokenId(const std::string& id) {
  return id.size() == 32 && std::all_of(id.begin(), id.end(), absl::ascii_isxdigit);
}

// Years that a clock can show, so that no sum of times overflows.
absl::StatusOr<absl::Time> TimeIn(const Claims& claims, const char* name) {
  constexpr int64_t kMost = 253'402'300'799;  // the end of the year 9999
  const auto found = claims.find(name);
  if (found != claims.end() && found->is_number_integer()) {
    const auto seconds = found->get<int64_t>();
    if (seconds >= 0 && seconds <= kMost) return absl::FromUnixSeconds(seconds);
  }
  return BadToken(absl::StrCat("no claim ", name), "seconds since 1970");
}

std::string TextIn(const Claims& claims, const char* name) {
  const auto found = claims.find(name);
  return found != claims.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::StatusOr<TokenClaims> ReadClaims(const std::string& text, const std::string& key) {
  const Claims claims = Claims::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!claims.is_object()) return BadToken("no claims", "an object of JSON");
  if (TextIn(claims, "aud") != kAudience) {
    return BadToken("one for another service", absl::StrCat("the claim aud ", kAudience));
  }
  TokenClaims read{.id = TextIn(claims, "jti"), .key = key};
  if (!IsTokenId(read.id)) return BadToken("no id", "the claim jti with 32 hexadecimal digits");
  ASSIGN_OR_RETURN(read.begin, TimeIn(claims, "nbf"));
  ASSIGN_OR_RETURN(read.end, TimeIn(claims, "exp"));
  absl::StatusOr<Identity> holder = IdentityOf({TextIn(claims, "sub")});
  if (!holder.ok() || holder->role != Role::kUser) {
    return BadToken("the claim sub of no user", "the URI of a user; all others have certificates");
  }
  read.holder = *std::move(holder);
  return read;
}

}  // namespace

TokenKey MakeTokenKey(std::string bytes) {
  const std::string canonical =
      Claims{{"crv", "Ed25519"}, {"kty", "OKP"}, {"x", Base64(bytes)}}.dump();
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(canonical.data()), canonical.size(), digest);
  return {Base64({reinterpret_cast<const char*>(digest), sizeof(digest)}), std::move(bytes)};
}

std::string UnsignedToken(const TokenClaims& claims) {
  const Claims text = {{"aud", kAudience},
                       {"exp", absl::ToUnixSeconds(claims.end)},
                       {"iat", absl::ToUnixSeconds(claims.begin)},
                       {"jti", claims.id},
                       {"nbf", absl::ToUnixSeconds(claims.begin)},
                       {"sub", claims.holder.uri}};
  return absl::StrCat(HeaderOf(claims.key), ".", Base64(text.dump()));
}

std::string JoinToken(absl::string_view unsigned_token, absl::string_view signature) {
  return absl::StrCat(unsigned_token, ".", Base64(signature));
}

absl::StatusOr<TokenClaims> VerifyToken(absl::string_view token,
                                        const std::vector<TokenKey>& keys) {
  if (static_cast<int64_t>(token.size()) > limits::kTokenBytes.value) {
    return BadToken(absl::StrCat(token.size(), " bytes"),
                    absl::StrCat("at most ", limits::kTokenBytes.value));
  }
  const size_t first = token.find('.'), last = token.rfind('.');
  if (first == token.npos || last == first) return NotSigned();
  const absl::string_view text = token.substr(0, last);
  for (const TokenKey& key : keys) {
    if (token.substr(0, first) != HeaderOf(key.id)) continue;
    std::string signature, claims;
    if (!absl::WebSafeBase64Unescape(token.substr(last + 1), &signature) ||
        signature.size() != kSignatureBytes || !HasSigned(key, text, signature)) {
      return NotSigned();
    }
    if (!absl::WebSafeBase64Unescape(text.substr(first + 1), &claims)) {
      return BadToken("no claims", "an object of JSON");
    }
    return ReadClaims(claims, key.id);
  }
  return NotSigned();
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& flag, const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, limits::kTokenBytes.value + 2);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(flag, ": ", text.status().message()));
  }
  if (const absl::Status mode = CheckKeyMode(path, "token"); !mode.ok()) {
    return absl::Status(mode.code(), absl::StrCat(flag, " ", path, ": ", mode.message()));
  }
  const absl::string_view token = absl::StripAsciiWhitespace(*text);
  const bool plain = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  });
  if (plain && std::count(token.begin(), token.end(), '.') == 2) return std::string(token);
  // Not what is in it: it may be another secret.
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", path,
                   ": found no token, expected the one line that `stretto ca token issue` writes"));
}

}  // namespace stretto::tls
