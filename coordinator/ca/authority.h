// SPDX-License-Identifier: Apache-2.0
#pragma once
// A certificate authority for a small cluster, in a folder (docs/design/0085-small-authorities.md):
//
//   ca.key          its private key; signs everything, and stays here
//   ca.crt          its certificate, for everybody
//   ca.crl          its revocation list, for the coordinator
//   index           what it has issued and revoked (index.h)
//   NAME.key, .crt  the newest key and certificate of each holder
//
// Tokens of users may be in the same folder (token_issuer.h).
//
// Keys have mode 0600. Files are replaced by rename.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/ca/holder.h"
#include "coordinator/ca/index.h"
#include "coordinator/ca/index_file.h"
#include "coordinator/ca/mint.h"

namespace stretto::ca {

// Clocks of other machines may be behind by this: a certificate is valid from a little earlier.
inline constexpr absl::Duration kBackdate = absl::Minutes(5);

// Returns the record of the CA in `folder`, whether or not it is locked. Errors name the file:
// NOT_FOUND (there is no CA), DATA_LOSS (damaged), those of ReadFile.
absl::StatusOr<Index> ReadIndex(const std::string& folder);

// One process at a time; one thread.
class Authority {
 public:
  // Makes a CA in `folder`, which is created with mode 0700 if it is missing. Errors:
  // ALREADY_EXISTS (it has a CA), those of files.
  static absl::StatusOr<Authority> Create(const std::string& folder, const std::string& name,
                                          absl::Duration lifetime, absl::Time now);
  // Locks the CA until the object ends, and waits if another process has locked it. Errors:
  // NOT_FOUND (there is no CA), INVALID_ARGUMENT or DATA_LOSS (a file is damaged),
  // FAILED_PRECONDITION (everybody can read its key), those of files.
  static absl::StatusOr<Authority> Open(const std::string& folder);

  const std::vector<Issued>& issued() const { return index_.index().issued; }
  std::string name() const { return signer_.name(); }
  absl::Time end() const { return signer_.end(); }

  // Makes a new key and certificate for the holder and writes them to NAME.key and NAME.crt.
  // Earlier certificates stay valid. Errors: FAILED_PRECONDITION (it would outlive the CA), those
  // of files.
  absl::StatusOr<Issued> Issue(const Holder& holder, absl::Duration lifetime, absl::Time now);

  // Revokes a certificate by its serial number, or all valid ones of a holder by his name, and
  // writes the revocation list. One that is revoked already is left as it is. Returns those that
  // `what` means. Errors: NOT_FOUND, with the nearest name.
  absl::StatusOr<std::vector<Issued>> Revoke(const std::string& what, const std::string& reason,
                                             absl::Time now);

 private:
  Authority(std::string folder, IndexFile index, Signer signer);
  std::string Path(const std::string& file) const { return folder_ + "/" + file; }
  absl::Status WriteList(absl::Time now);

  std::string folder_;
  IndexFile index_;
  Signer signer_;
};

}  // namespace stretto::ca
