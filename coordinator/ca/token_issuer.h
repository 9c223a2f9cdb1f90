// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes and revokes the tokens of users, in the folder of a CA or in one of its own
// (docs/design/0086-tokens-of-users.md):
//
//   token.key     the private key that signs them (Ed25519); stays here
//   tokens        its public key and what is revoked, for the coordinator (proto/tls/tokens.h)
//   token-index   what was issued and revoked (index.h)
//   NAME.token    the newest token of each user
//
// The key and the tokens have mode 0600. Files are replaced by rename.

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/ca/holder.h"
#include "coordinator/ca/index.h"
#include "coordinator/ca/index_file.h"
#include "proto/tls/tokens.h"

namespace stretto::ca {

// Returns the record of the tokens in `folder`, whether or not it is locked. Errors name the file:
// NOT_FOUND (there are none), DATA_LOSS (damaged), those of ReadFile.
absl::StatusOr<Index> ReadTokenIndex(const std::string& folder);

// A private key of Ed25519.
class TokenSigner {
 public:
  // Returns a new one in PEM. Errors: INTERNAL, of OpenSSL.
  static absl::StatusOr<std::string> NewKey();
  // Errors: INVALID_ARGUMENT "found ..., expected ..." if it is none.
  static absl::StatusOr<TokenSigner> Read(const std::string& pem);

  const tls::TokenKey& public_key() const { return public_key_; }
  // Returns the token with these claims, whose key is set. Errors: INTERNAL, of OpenSSL.
  absl::StatusOr<std::string> Sign(tls::TokenClaims claims) const;

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  TokenSigner(Key key, tls::TokenKey public_key)
      : key_(std::move(key)), public_key_(std::move(public_key)) {}

  Key key_;
  tls::TokenKey public_key_;
};

// One process at a time; one thread.
class TokenIssuer {
 public:
  // Locks the record until the object ends, and waits if another process has locked it. Makes what
  // is missing, the key as well: then the coordinator refuses the tokens of the key before. Errors:
  // NOT_FOUND (there is no such folder), INVALID_ARGUMENT or DATA_LOSS (a file is damaged),
  // FAILED_PRECONDITION (everybody can read the key), those of files.
  static absl::StatusOr<TokenIssuer> Open(const std::string& folder, absl::Time now);

  const std::vector<Issued>& issued() const { return index_.index().issued; }
  // Whether Open has made the key.
  bool made_key() const { return made_key_; }

  // Makes a token for the user and writes it to NAME.token. Earlier tokens stay valid. Errors:
  // INVALID_ARGUMENT (it would be longer than limits::kTokenBytes), those of files.
  absl::StatusOr<Issued> Issue(const Holder& user, absl::Duration lifetime, absl::Time now);

  // IndexFile::Revoke, and writes the file for the coordinator.
  absl::StatusOr<std::vector<Issued>> Revoke(const std::string& what, const std::string& reason,
                                             absl::Time now);

 private:
  TokenIssuer(std::string folder, IndexFile index, TokenSigner signer, bool made_key)
      : folder_(std::move(folder)),
        index_(std::move(index)),
        signer_(std::move(signer)),
        made_key_(made_key) {}
  std::string Path(const std::string& file) const { return folder_ + "/" + file; }
  // Writes the file for the coordinator if it is not what it should be.
  absl::Status Publish(absl::Time now) const;

  std::string folder_;
  IndexFile index_;
  TokenSigner signer_;
  bool made_key_;
};

}  // namespace stretto::ca
