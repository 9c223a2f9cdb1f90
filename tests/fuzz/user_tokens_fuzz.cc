// SPDX-License-Identifier: Apache-2.0

// Tokens of users. Any bytes as a token, as the claims of one that is signed, and as the
// coordinator's file of keys give claims, keys or a sentence. What was read is written and read the
// same.
#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "proto/tls/tokens.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using stretto::IsPrintable;
using stretto::tls::TokenClaims;
using stretto::tls::TokenKey;

// A key that is the same in every run.
class Signer {
 public:
  Signer()
      : pair_(EVP_PKEY_new_raw_private_key(
                  EVP_PKEY_ED25519, nullptr,
                  reinterpret_cast<const unsigned char*>("01234567890123456789012345678901"), 32),
              EVP_PKEY_free) {
    std::string bytes(32, '\0');
    size_t length = bytes.size();
    STRETTO_CHECK(EVP_PKEY_get_raw_public_key(
                      pair_.get(), reinterpret_cast<unsigned char*>(bytes.data()), &length) == 1);
    key_ = stretto::tls::MakeTokenKey(bytes);
  }
  const TokenKey& key() const { return key_; }
  std::string Sign(const std::string& text) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    std::string signature(64, '\0');
    size_t length = signature.size();
    STRETTO_CHECK(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, pair_.get()) == 1);
    STRETTO_CHECK(EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                                 &length, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size()) == 1);
    return stretto::tls::JoinToken(text, signature);
  }

 private:
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair_;
  TokenKey key_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Signer signer;
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  const auto forged = stretto::tls::VerifyToken(text, {signer.key()});
  STRETTO_CHECK(!forged.ok() && IsPrintable(forged.status().message()));

  TokenClaims any;
  any.key = signer.key().id;
  const std::string header = stretto::tls::UnsignedToken(any);
  const std::string token = signer.Sign(
      absl::StrCat(header.substr(0, header.find('.')), ".", absl::WebSafeBase64Escape(text)));
  const auto claims = stretto::tls::VerifyToken(token, {signer.key()});
  STRETTO_CHECK(claims.ok() || IsPrintable(claims.status().message()));
  if (claims.ok()) {
    STRETTO_CHECK(claims->holder.role == stretto::tls::Role::kUser);
    const auto again = stretto::tls::VerifyToken(signer.Sign(stretto::tls::UnsignedToken(*claims)),
                                                 {signer.key()});
    STRETTO_CHECK(again.ok() && again->id == claims->id && again->end == claims->end);
    STRETTO_CHECK(again->holder.uri == claims->holder.uri);
  }

  const auto file = stretto::tls::ParseTokens(text);
  STRETTO_CHECK(file.ok() || IsPrintable(file.status().message()));
  if (file.ok()) {
    const auto again = stretto::tls::ParseTokens(stretto::tls::TokensText(*file));
    STRETTO_CHECK(again.ok() && again->keys.size() == file->keys.size());
    STRETTO_CHECK(again->revoked.size() == file->revoked.size());
  }
  return 0;
}
