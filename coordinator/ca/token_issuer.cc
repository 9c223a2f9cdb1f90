// SPDX-License-Identifier: Apache-2.0

// As with certificates (authority.cc), the order of writes makes a crash harmless: a token is
// recorded before its file is written, and a revocation before the coordinator's file. That file
// follows from the key and the record, so Open mends it.

#include "coordinator/ca/token_issuer.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "coordinator/ca/authority.h"
#include "coordinator/ca/mint.h"
#include "proto/base/files.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/tls/files.h"
#include "proto/tls/identity.h"

namespace stretto::ca {
namespace {

constexpr char kTokenKey[] = "token.key";
constexpr char kTokens[] = "tokens";
constexpr char kTokenIndex[] = "token-index";

absl::Status TokenFailure(const char* what) {
  std::array<char, 256> text = {};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL could not ", what, ": ", text.data()));
}

bool IsThere(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0;
}

// Whole seconds, as in tokens and in the record.
absl::Time Second(absl::Time time) { return absl::FromUnixSeconds(absl::ToUnixSeconds(time)); }

absl::Status AtTokenKey(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

absl::StatusOr<Index> ReadTokenIndex(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kTokenIndex);
  if (IsThere(path)) return ReadIndexFile(path);
  return absl::NotFoundError(absl::StrCat("found no tokens in ", folder, ", expected its file ",
                                          kTokenIndex, "; `stretto ca token issue ", folder,
                                          " --user NAME` makes the first one"));
}

absl::StatusOr<std::string> TokenSigner::NewKey() {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), EVP_PKEY_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  if (key == nullptr || bio == nullptr ||
      PEM_write_bio_PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return TokenFailure("make a key");
  }
  char* text = nullptr;
  const auto length = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(length));
}

absl::StatusOr<TokenSigner> TokenSigner::Read(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  std::string bytes(32, '\0');
  size_t length = bytes.size();
  const bool good = key != nullptr && EVP_PKEY_id(key.get()) == EVP_PKEY_ED25519 &&
                    EVP_PKEY_get_raw_public_key(
                        key.get(), reinterpret_cast<unsigned char*>(bytes.data()), &length) == 1 &&
                    length == bytes.size();
  ERR_clear_error();
  if (good) return TokenSigner(std::move(key), tls::MakeTokenKey(std::move(bytes)));
  return absl::InvalidArgumentError(
      "found no private key of Ed25519, expected one in PEM form, unencrypted; without the file a "
      "new key is made, and the tokens of this one are refused");
}

absl::StatusOr<std::string> TokenSigner::Sign(tls::TokenClaims claims) const {
  claims.key = public_key_.id;
  const std::string text = tls::UnsignedToken(claims);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  std::string signature(64, '\0');
  size_t length = signature.size();
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &length,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size()) != 1) {
    return TokenFailure("sign a token");
  }
  return tls::JoinToken(text, signature);
}

absl::StatusOr<TokenIssuer> TokenIssuer::Open(const std::string& folder, absl::Time now) {
  if (!IsThere(folder)) {
    return absl::NotFoundError(absl::StrCat("found no folder ", folder,
                                            ", expected that of a CA; `stretto ca init ", folder,
                                            "` makes one"));
  }
  ASSIGN_OR_RETURN(
      IndexFile index,
      IndexFile::Open(absl::StrCat(folder, "/", kTokenIndex),
                      {.kind = "token", .number = "id", .list = "stretto ca token list " + folder},
                      O_CREAT));
  const std::string path = absl::StrCat(folder, "/", kTokenKey);
  const bool make = !IsThere(path);
  if (make) {
    ASSIGN_OR_RETURN(const std::string key, TokenSigner::NewKey());
    RETURN_IF_ERROR(WritePrivateFile(path, key));
  }
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(path));
  if (const absl::Status mode = tls::CheckKeyMode(path); !mode.ok()) return AtTokenKey(path, mode);
  absl::StatusOr<TokenSigner> signer = TokenSigner::Read(pem);
  if (!signer.ok()) return AtTokenKey(path, signer.status());
  TokenIssuer issuer(folder, std::move(index), *std::move(signer), make);
  RETURN_IF_ERROR(issuer.Publish(now));
  return issuer;
}

absl::Status TokenIssuer::Publish(absl::Time now) const {
  tls::TokensFile file{.keys = {signer_.public_key()}, .revoked = {}};
  for (const Issued& one : issued()) {
    // The end refuses what is over, a little later for clocks that are behind.
    if (one.revoked && now <= one.end + kBackdate) file.revoked.push_back({one.serial, one.end});
  }
  const std::string text = tls::TokensText(file);
  const absl::StatusOr<std::string> before = ReadFile(Path(kTokens));
  return before.ok() && *before == text ? absl::OkStatus() : WriteFileAtomic(Path(kTokens), text);
}

absl::StatusOr<Issued> TokenIssuer::Issue(const Holder& user, absl::Duration lifetime,
                                          absl::Time now) {
  Issued issued{.serial = NewSerial(),
                .name = user.name,
                .alternative_names = user.alternative_names,
                .begin = Second(now - kBackdate),
                .end = Second(now + lifetime)};
  const std::string uri(absl::StripPrefix(user.alternative_names, "URI:"));
  ASSIGN_OR_RETURN(tls::Identity holder, tls::IdentityOf({uri}));
  ASSIGN_OR_RETURN(const std::string token, signer_.Sign({.id = issued.serial,
                                                          .holder = std::move(holder),
                                                          .begin = issued.begin,
                                                          .end = issued.end}));
  if (static_cast<int64_t>(token.size()) > limits::kTokenBytes.value) {
    return absl::InvalidArgumentError(absl::StrCat(
        user.name, ": found a token of ", token.size(), " bytes, expected at most ",
        limits::kTokenBytes.value, "; give a role in every project instead of some in many"));
  }
  RETURN_IF_ERROR(index_.Issue(issued, now));
  RETURN_IF_ERROR(WritePrivateFile(Path(user.name + ".token"), token + "\n"));
  return issued;
}

absl::StatusOr<std::vector<Issued>> TokenIssuer::Revoke(const std::string& what,
                                                        const std::string& reason, absl::Time now) {
  ASSIGN_OR_RETURN(std::vector<Issued> meant, index_.Revoke(what, reason, now));
  RETURN_IF_ERROR(Publish(now));
  return meant;
}

}  // namespace stretto::ca
