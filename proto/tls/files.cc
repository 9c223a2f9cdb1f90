// SPDX-License-Identifier: Apache-2.0

// Checks the three files one after the other: all are given, the CA and the chain can be read, the
// key fits the certificate and is not readable by everybody, the certificate is valid now, leads to
// the CA and names the expected role. Only the first problem is reported, with its flag and file.

#include "proto/tls/files.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/tls/x509.h"

namespace stretto::tls {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

constexpr char kCa[] = "--tls-ca";
constexpr char kCertificate[] = "--tls-certificate";
constexpr char kKey[] = "--tls-key";

absl::Status At(const char* flag, const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, " ", path, ": ", status.message()));
}

absl::Status CheckAllGiven(const Files& files) {
  std::vector<std::string> given;
  if (!files.ca.empty()) given.push_back(kCa);
  if (!files.certificate.empty()) given.push_back(kCertificate);
  if (!files.key.empty()) given.push_back(kKey);
  if (given.size() == 3) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("TLS: found only ", absl::StrJoin(given, " and "),
                                                 ", expected ", kCa, ", ", kCertificate, " and ",
                                                 kKey, ", or none of them"));
}

absl::StatusOr<std::string> ReadPem(const char* flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(flag, ": ", text.status().message()));
  }
  return text;
}

absl::StatusOr<std::vector<X509Pointer>> ReadRoots(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadPem(kCa, path));
  std::vector<X509Pointer> roots = ReadCertificates(text);
  const auto is_ca = [](const X509Pointer& root) { return X509_check_ca(root.get()) > 0; };
  if (std::any_of(roots.begin(), roots.end(), is_ca)) return roots;
  return At(kCa, path,
            absl::InvalidArgumentError(absl::StrCat("found ", roots.size(),
                                                    " certificates, none of a CA; expected that "
                                                    "of the CA in PEM form")));
}

absl::StatusOr<std::vector<X509Pointer>> ReadChain(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadPem(kCertificate, path));
  std::vector<X509Pointer> chain = ReadCertificates(text);
  if (!chain.empty()) return chain;
  return At(kCertificate, path,
            absl::InvalidArgumentError("found no certificate, expected one in PEM form"));
}

absl::Status CheckKeyMode(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat(kKey, ": ", path));
  if ((info.st_mode & S_IRWXO) == 0) return absl::OkStatus();
  return At(kKey, path,
            absl::FailedPreconditionError(
                absl::StrFormat("found mode %04o, which lets everybody on this machine have the "
                                "key; expected 0600, or 0640 for a group",
                                info.st_mode & 07777u)));
}

absl::Status CheckKey(const std::string& path, const Files& files, X509* leaf) {
  ASSIGN_OR_RETURN(const std::string text, ReadPem(kKey, path));
  RETURN_IF_ERROR(CheckKeyMode(path));
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  // A daemon cannot ask anybody for a passphrase.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  const bool fits = key != nullptr && X509_check_private_key(leaf, key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return At(kKey, path,
              absl::InvalidArgumentError(
                  "found no private key that can be read, expected one in PEM form, unencrypted"));
  }
  if (fits) return absl::OkStatus();
  return At(kKey, path,
            absl::FailedPreconditionError(absl::StrCat(
                "found the key of another certificate, expected that of ", files.certificate)));
}

}  // namespace

absl::StatusOr<Identity> CheckFiles(const Files& files, Role role, absl::Time now) {
  RETURN_IF_ERROR(CheckAllGiven(files));
  ASSIGN_OR_RETURN(const std::vector<X509Pointer> roots, ReadRoots(files.ca));
  ASSIGN_OR_RETURN(const std::vector<X509Pointer> chain, ReadChain(files.certificate));
  X509* const leaf = chain.front().get();
  RETURN_IF_ERROR(CheckKey(files.key, files, leaf));
  const auto at_certificate = [&](const absl::Status& status) {
    return At(kCertificate, files.certificate, status);
  };
  if (const absl::Status valid = CheckValidAt(*leaf, now); !valid.ok()) {
    return at_certificate(valid);
  }
  const Purpose purpose = role == Role::kCoordinator ? Purpose::kServer : Purpose::kClient;
  if (const absl::Status chained = CheckChain(chain, roots, now, purpose); !chained.ok()) {
    return at_certificate(absl::FailedPreconditionError(
        absl::StrCat("found a certificate by ", IssuerOf(*leaf), " that does not lead to ",
                     files.ca, " (", chained.message(), "), expected one of that CA")));
  }
  const absl::StatusOr<Identity> identity = IdentityOf(UrisOf(*leaf));
  if (!identity.ok()) {
    return At(kCertificate, files.certificate,
              absl::FailedPreconditionError(identity.status().message()));
  }
  if (identity->role == role) return identity;
  return at_certificate(absl::FailedPreconditionError(
      absl::StrCat("found role ", RoleName(identity->role), " (", identity->uri,
                   "), expected role ", RoleName(role))));
}

}  // namespace stretto::tls
