// SPDX-License-Identifier: Apache-2.0
#pragma once
// Certificates for tests, made in memory: P-256, valid from an hour ago for an hour unless said
// otherwise, serial numbers of the test's choice.

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/tls/files.h"

namespace stretto::tls {

struct Certificate {
  std::string alternative_names = {};  // openssl's form: "URI:spiffe://a/stretto/user,IP:127.0.0.1"
  absl::Duration begin = -absl::Hours(1);  // from now
  absl::Duration end = absl::Hours(1);
  int64_t serial = 1;
  std::string usage = {};  // extended key usage, "serverAuth"; empty: any
  std::string common_name = "someone";
};

inline const Certificate kCoordinatorCertificate = {
    .alternative_names = "URI:spiffe://test/stretto/coordinator,IP:127.0.0.1,DNS:localhost"};
inline const Certificate kUserCertificate = {.alternative_names =
                                                 "URI:spiffe://test/stretto/user/alice"};
// Without a name in it if `name` is empty.
Certificate WorkerCertificate(const std::string& name = "");

struct IssuedPem {
  std::string certificate, key;
};

// A CA of its own.
class TestCa {
 public:
  explicit TestCa(const std::string& name = "test CA");
  std::string pem() const;
  IssuedPem Issue(const Certificate& wanted) const;
  // A revocation list in PEM with these serial numbers. `critical`: with an extension that nobody
  // may ignore.
  std::string RevocationList(const std::vector<int64_t>& serials, bool critical = false) const;
  // Into FOLDER/NAME.{ca,crt,key}, each by rename; the key with mode 0600.
  Files Write(const std::string& folder, const std::string& name, const Certificate& wanted) const;

 private:
  std::string name_;
  std::shared_ptr<EVP_PKEY> key_;
  std::shared_ptr<X509> certificate_;
};

}  // namespace stretto::tls
