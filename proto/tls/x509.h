// SPDX-License-Identifier: Apache-2.0
#pragma once
// The facts of certificates as plain values. For this folder, for coordinator/ca, which makes
// certificates, and for coordinator/page, which shakes hands without gRPC.

#include <openssl/x509.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace stretto::tls {

struct X509Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using X509Pointer = std::unique_ptr<X509, X509Free>;

// Returns all certificates of a PEM text, in order; ignores other blocks. Clears OpenSSL's errors.
std::vector<X509Pointer> ReadCertificates(absl::string_view pem);

std::string PemOf(const X509& certificate);

// Returns the URIs among the subject alternative names.
std::vector<std::string> UrisOf(const X509& certificate);
// Returns DNS names and IP addresses: "node-a, 10.0.0.7"; "no name" if there is none.
std::string HostsOf(const X509& certificate);
// Returns whether the certificate has `host`, a DNS name or an IP address.
bool HasHost(const X509& certificate, const std::string& host);
std::string NameText(const X509_NAME* name);    // "CN=..."
std::string IssuerOf(const X509& certificate);  // NameText of it
std::string SerialOf(const X509& certificate);  // hexadecimal, lower case: "0a1b"
absl::Time BeginOf(const X509& certificate);
absl::Time EndOf(const X509& certificate);

// Errors: FAILED_PRECONDITION "found one that expired at ..., expected one valid at `now`", and the
// like if it is not valid yet.
absl::Status CheckValidAt(const X509& certificate, absl::Time now);

// Checks that `chain`, leaf first, leads to one of `roots` at `now` and is valid for `purpose`
// (extended key usage; a certificate without it is valid for both). Errors have OpenSSL's
// description, "unable to get local issuer certificate".
enum class Purpose { kServer, kClient };
absl::Status CheckChain(const std::vector<X509Pointer>& chain,
                        const std::vector<X509Pointer>& roots, absl::Time now, Purpose purpose);

}  // namespace stretto::tls
