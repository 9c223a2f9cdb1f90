// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keys, certificates and revocation lists, made in memory as PEM. Keys are ECDSA on P-256,
// signatures have SHA-256. Times and serial numbers are arguments; only keys and signatures are
// random.

#include <openssl/evp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/tls/x509.h"

namespace stretto::ca {

// A certificate and its private key, unencrypted.
struct Minted {
  std::string certificate, key;
};

// What a certificate says.
struct Wanted {
  std::string serial;             // hexadecimal
  std::string common_name;        // cut to the 64 characters that X.509 allows
  std::string alternative_names;  // openssl's form: "URI:spiffe://a/stretto/worker,IP:127.0.0.1"
  absl::Time begin, end;
};

struct RevokedSerial {
  std::string serial;
  absl::Time time;
};

// Returns 16 random bytes in hexadecimal, as a positive number.
std::string NewSerial();

// Makes a CA that signs certificates and revocation lists, and no other CA. INTERNAL errors here
// and below are OpenSSL's.
absl::StatusOr<Minted> MintCa(const std::string& name, absl::Time begin, absl::Time end);

// The certificate of a CA and its key.
class Signer {
 public:
  // Errors: INVALID_ARGUMENT "found ..., expected ..." if the texts are not those of one CA.
  static absl::StatusOr<Signer> Read(const std::string& certificate, const std::string& key);

  std::string name() const { return tls::NameText(X509_get_subject_name(certificate_.get())); }
  absl::Time end() const { return tls::EndOf(*certificate_); }

  // A certificate for servers and clients. Errors: INVALID_ARGUMENT if a serial number or names are
  // not of their form.
  absl::StatusOr<Minted> Issue(const Wanted& wanted) const;
  // A complete revocation list. `number` must grow from list to list. It is valid as long as the
  // CA.
  absl::StatusOr<std::string> List(const std::vector<RevokedSerial>& revoked, int64_t number,
                                   absl::Time now) const;

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  Signer(tls::X509Pointer certificate, Key key)
      : certificate_(std::move(certificate)), key_(std::move(key)) {}

  tls::X509Pointer certificate_;
  Key key_;
};

}  // namespace stretto::ca
