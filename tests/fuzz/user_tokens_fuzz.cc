// SPDX-License-Identifier: Apache-2.0

// Tokens of users. Any bytes as a token, as the claims of one that is signed, and as the
// coordinator's file of keys give claims, keys or a sentence. What was read is written and read the
// same. A file that turns bad leaves what was read of it, and revokes nobody.
#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
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

// A user with a token of that key, the one that the file revokes if it revokes any.
TokenClaims BearerOf(const stretto::tls::TokensFile& file, const TokenKey& key) {
  TokenClaims bearer;
  bearer.id = "0123456789abcdef0123456789abcdef";
  if (!file.revoked.empty() && file.revoked[0].id.size() == 32 &&
      file.revoked[0].id.find_first_not_of("0123456789abcdef") == std::string::npos) {
    bearer.id = file.revoked[0].id;
  }
  bearer.key = key.id;
  bearer.holder = *stretto::tls::IdentityOf({"spiffe://test/stretto/user/alice"});
  bearer.begin = absl::FromUnixSeconds(1'800'000'000);
  bearer.end = bearer.begin + absl::Seconds(60);
  return bearer;
}

// The file of keys with ours, in which the bearer is valid, and with what it revokes.
void ReadKeys(stretto::tls::TokensFile file, const TokenKey& ours, const std::string& token,
              const TokenClaims& claims) {
  const stretto::fuzz::Folder& folder = stretto::fuzz::Folder::Get();
  file.keys.insert(file.keys.begin(), ours);
  if (file.keys.size() > 16) return;
  const std::string path = folder.Write("tokens", stretto::tls::TokensText(file));
  const auto tokens = stretto::tls::Tokens::Open(path);
  STRETTO_CHECK(tokens.ok() && !(*tokens)->Refresh());
  const auto verified = (*tokens)->Verify(token);
  STRETTO_CHECK(verified.ok() && (*tokens)->Verify(token)->id == verified->id);
  const auto is_revoked = [&] {
    for (const auto& revoked : file.revoked) {
      if (revoked.id == claims.id) return true;
    }
    return false;
  };
  STRETTO_CHECK((*tokens)->revoked() <= static_cast<int>(file.revoked.size()));
  for (const absl::Time now : {claims.begin - absl::Seconds(1), claims.begin, claims.end}) {
    const absl::Status checked = (*tokens)->Check(claims, now);
    const bool valid = now >= claims.begin && now < claims.end && !is_revoked();
    STRETTO_CHECK(checked.ok() == valid && IsPrintable(checked.message()));
  }
  const int revoked = (*tokens)->revoked();
  folder.Write("tokens", "none");
  STRETTO_CHECK((*tokens)->Refresh() && !(*tokens)->status().ok());
  STRETTO_CHECK((*tokens)->revoked() == revoked && (*tokens)->Verify(token).ok());
  // Our key is taken back.
  if (file.keys.size() == 1) return;
  file.keys.erase(file.keys.begin());
  for (const TokenKey& key : file.keys) {
    if (key.id == ours.id) return;
  }
  folder.Write("tokens", stretto::tls::TokensText(file));
  STRETTO_CHECK((*tokens)->Refresh() && (*tokens)->status().ok());
  STRETTO_CHECK(!(*tokens)->Check(claims, claims.begin).ok());
}

// As a user keeps a token: for himself.
void ReadOwn(absl::string_view text) {
  static const std::string path = [] {
    const std::string file = stretto::fuzz::Folder::Get().Write("own", "");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }();
  stretto::fuzz::Folder::Get().Write("own", text);
  const std::string open = stretto::fuzz::Folder::Get().Write("open", text);  // to everybody
  stretto::tls::ReadTokenFile("--token-file", open).status().IgnoreError();
  const auto token = stretto::tls::ReadTokenFile("--token-file", path);
  STRETTO_CHECK(token.ok() || IsPrintable(token.status().message()));
  STRETTO_CHECK(!token.ok() || (IsPrintable(*token) && token->size() <= text.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Signer signer;
  const absl::string_view text = stretto::fuzz::TextOf(data, size);
  const auto forged = stretto::tls::VerifyToken(text, {signer.key()});
  STRETTO_CHECK(!forged.ok() && IsPrintable(forged.status().message()));

  TokenClaims any;
  any.key = signer.key().id;
  const std::string header = stretto::tls::UnsignedToken(any);
  const std::string first = absl::StrCat(header.substr(0, header.find('.')), ".");
  const auto bare =
      stretto::tls::VerifyToken(signer.Sign(absl::StrCat(first, text)), {signer.key()});
  STRETTO_CHECK(bare.ok() || IsPrintable(bare.status().message()));
  const std::string token = signer.Sign(absl::StrCat(first, absl::WebSafeBase64Escape(text)));
  const auto claims = stretto::tls::VerifyToken(token, {signer.key()});
  STRETTO_CHECK(claims.ok() || IsPrintable(claims.status().message()));
  if (claims.ok()) {
    STRETTO_CHECK(claims->holder.role == stretto::tls::Role::kUser);
    const auto again = stretto::tls::VerifyToken(signer.Sign(stretto::tls::UnsignedToken(*claims)),
                                                 {signer.key()});
    STRETTO_CHECK(again.ok() && again->id == claims->id && again->end == claims->end);
    STRETTO_CHECK(again->holder.uri == claims->holder.uri);
    ReadKeys({}, signer.key(), token, *claims);
  }

  ReadOwn(text);
  const auto file = stretto::tls::ParseTokens(text);
  STRETTO_CHECK(file.ok() || IsPrintable(file.status().message()));
  if (file.ok()) {
    const auto again = stretto::tls::ParseTokens(stretto::tls::TokensText(*file));
    STRETTO_CHECK(again.ok() && again->keys.size() == file->keys.size());
    STRETTO_CHECK(again->revoked.size() == file->revoked.size());
    const TokenClaims bearer = BearerOf(*file, signer.key());
    ReadKeys(*file, signer.key(), signer.Sign(stretto::tls::UnsignedToken(bearer)), bearer);
  }
  return 0;
}
