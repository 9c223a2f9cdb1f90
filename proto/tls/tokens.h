// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a coordinator knows of its users' tokens: whose signatures count, and which tokens are
// revoked. `stretto ca token` writes the file, which may be replaced at any time. It is a set of
// keys (RFC 7517) with one more member:
//
//   {"keys":[{"crv":"Ed25519","kid":"...","kty":"OKP","x":"..."}],
//    "revoked":[{"exp":1800000000,"jti":"4f0c..."}]}
//
// A token is in the list until it ends.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/tls/token.h"

namespace stretto::tls {

struct RevokedToken {
  std::string id;
  absl::Time end;
};

struct TokensFile {
  std::vector<TokenKey> keys;
  std::vector<RevokedToken> revoked;
};

std::string TokensText(const TokensFile& file);
// Errors: INVALID_ARGUMENT "found ..., expected ...".
absl::StatusOr<TokensFile> ParseTokens(absl::string_view text);

// Thread-safe.
class Tokens {
 public:
  // Errors name the flag --tokens and the file: INVALID_ARGUMENT (it is of another form),
  // NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE (it cannot be read).
  static absl::StatusOr<std::unique_ptr<Tokens>> Open(const std::string& path);
  ~Tokens();

  // Reads the file again if it has changed, and returns whether it did. If it is not as Open wants
  // it, the last good content holds. One thread at a time.
  bool Refresh();
  // Why the present content of the file is not used; Ok if it is.
  absl::Status status() const;
  int revoked() const;

  // VerifyToken with the keys of the file. The result for a good token is kept until they change.
  absl::StatusOr<TokenClaims> Verify(absl::string_view token) const;
  // Errors: UNAUTHENTICATED, naming the id and the holder, if a token of Verify is not valid at
  // `now`, is revoked, or its key has been taken back.
  absl::Status Check(const TokenClaims& claims, absl::Time now) const;

 private:
  struct Impl;
  explicit Tokens(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace stretto::tls
