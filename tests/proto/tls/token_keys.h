// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens for tests, also such as `stretto ca token` would never make.

#include <openssl/evp.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "proto/tls/tokens.h"

namespace stretto::tls {

class TestTokenKey {
 public:
  TestTokenKey();

  const TokenKey& key() const { return key_; }
  // Adds the signature of this key to any text.
  std::string Sign(const std::string& text) const;
  // A token with the right header and any claims.
  std::string SignClaims(const std::string& claims) const;
  // A token of `user`, "alice/submitter/speech", whose id ends with `number`.
  std::string Token(const std::string& user, absl::Time begin, absl::Time end,
                    int number = 1) const;

 private:
  std::shared_ptr<EVP_PKEY> key_pair_;
  TokenKey key_;
};

// "000...01", with 32 digits.
std::string TokenId(int number);

}  // namespace stretto::tls
