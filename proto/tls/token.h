// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bearer tokens of users: JSON Web Tokens (RFC 7519) that are signed with Ed25519 (RFC 8037).
//
//   header   {"alg":"EdDSA","kid":"KEY","typ":"JWT"}, in exactly these bytes
//   claims   aud "stretto", sub the URI of a user (identity.h), jti the id, iat, nbf and exp
//
// `stretto ca token` makes them (coordinator/ca/token_issuer.h). Nothing of a token is decoded
// before its signature is verified (docs/design/0086-tokens-of-users.md).

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/tls/identity.h"

namespace stretto::tls {

// A public key of Ed25519: 32 bytes.
struct TokenKey {
  std::string id;     // its thumbprint (RFC 7638)
  std::string bytes;  // as RFC 8032 has them
};

// `bytes` must be 32.
TokenKey MakeTokenKey(std::string bytes);

struct TokenClaims {
  std::string id = {};              // 32 hexadecimal digits
  std::string key = {};             // the id of the key that signed it
  Identity holder = {};             // a user
  absl::Time begin = {}, end = {};  // in whole seconds
};

// Returns what is signed: header and claims.
std::string UnsignedToken(const TokenClaims& claims);
std::string JoinToken(absl::string_view unsigned_token, absl::string_view signature);

// Returns the claims of a token that one of `keys` has signed, whether or not it is valid now. The
// errors never show the token: UNAUTHENTICATED "token: found ..., expected ...", if it is longer
// than limits::kTokenBytes, nobody has signed it, or its claims are not those of a user of this
// service.
absl::StatusOr<TokenClaims> VerifyToken(absl::string_view token, const std::vector<TokenKey>& keys);

// Returns the token in the file `path`, which `flag` names in messages. Errors: FAILED_PRECONDITION
// (everybody on this machine can read it), INVALID_ARGUMENT (it is no token), those of files.
absl::StatusOr<std::string> ReadTokenFile(const std::string& flag, const std::string& path);

}  // namespace stretto::tls
