// SPDX-License-Identifier: Apache-2.0
#include "tests/proto/tls/token_keys.h"

#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stretto::tls {

TestTokenKey::TestTokenKey()
    : key_pair_(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free) {
  std::string bytes(32, '\0');
  size_t length = bytes.size();
  EXPECT_EQ(EVP_PKEY_get_raw_public_key(key_pair_.get(),
                                        reinterpret_cast<unsigned char*>(bytes.data()), &length),
            1);
  key_ = MakeTokenKey(bytes);
}

std::string TestTokenKey::Sign(const std::string& text) const {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  std::string signature(64, '\0');
  size_t length = signature.size();
  EXPECT_EQ(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_pair_.get()), 1);
  EXPECT_EQ(
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &length,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size()),
      1);
  return JoinToken(text, signature);
}

std::string TestTokenKey::SignClaims(const std::string& claims) const {
  TokenClaims any;
  any.key = key_.id;
  const std::string text = UnsignedToken(any);
  return Sign(absl::StrCat(text.substr(0, text.find('.')), ".", absl::WebSafeBase64Escape(claims)));
}

std::string TestTokenKey::Token(const std::string& user, absl::Time begin, absl::Time end,
                                int number) const {
  TokenClaims claims;
  claims.id = TokenId(number);
  claims.key = key_.id;
  claims.holder.uri = absl::StrCat("spiffe://test/stretto/user/", user);
  claims.begin = begin;
  claims.end = end;
  return Sign(UnsignedToken(claims));
}

std::string TokenId(int number) { return absl::StrFormat("%032x", number); }

}  // namespace stretto::tls
