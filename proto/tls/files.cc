// SPDX-License-Identifier: Apache-2.0

// Checks the files one after the other: all are given, the CA and the chain can be read, the
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
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/tls/token.h"
#include "proto/tls/x509.h"

namespace stretto::tls {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

constexpr char kCa[] = "ca";
constexpr char kCertificate[] = "certificate";
constexpr char kKey[] = "key";
constexpr char kPemBegin[] = "-----BEGIN";

std::string FlagOf(const Files& files, const char* name) { return absl::StrCat(files.flags, name); }

absl::Status At(const std::string& flag, const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(flag, " ", path, ": ", status.message()));
}

// `ca_alone`: a CA is enough.
absl::Status CheckAllGiven(const Files& files, bool ca_alone = false) {
  const std::string ca = FlagOf(files, kCa), certificate = FlagOf(files, kCertificate),
                    key = FlagOf(files, kKey);
  for (const auto& [flag, path] :
       {std::pair{&ca, &files.ca}, std::pair{&certificate, &files.certificate},
        std::pair{&key, &files.key}}) {
    if (!absl::StrContains(*path, kPemBegin)) continue;
    // Not shown: messages are kept, and everybody on a machine sees command lines.
    return absl::InvalidArgumentError(
        absl::StrCat(*flag, ": found PEM text, expected the path of a file that has it"));
  }
  std::vector<std::string> given;
  if (!files.ca.empty()) given.push_back(ca);
  if (!files.certificate.empty()) given.push_back(certificate);
  if (!files.key.empty()) given.push_back(key);
  if (given.size() == 3 || (ca_alone && given == std::vector{ca})) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "TLS: found only ", absl::StrJoin(given, " and "), ", expected ", ca, ", ", certificate,
      " and ", key, ca_alone ? ", or the CA alone" : ", or none of them"));
}

absl::StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(flag, ": ", text.status().message()));
  }
  return text;
}

absl::StatusOr<std::vector<X509Pointer>> ReadRoots(const Files& files) {
  const std::string flag = FlagOf(files, kCa);
  ASSIGN_OR_RETURN(const std::string text, ReadPem(flag, files.ca));
  std::vector<X509Pointer> roots = ReadCertificates(text);
  const auto is_ca = [](const X509Pointer& root) { return X509_check_ca(root.get()) > 0; };
  if (std::any_of(roots.begin(), roots.end(), is_ca)) return roots;
  return At(flag, files.ca,
            absl::InvalidArgumentError(absl::StrCat("found ", roots.size(),
                                                    " certificates, none of a CA; expected that "
                                                    "of the CA in PEM form")));
}

absl::StatusOr<std::vector<X509Pointer>> ReadChain(const Files& files) {
  const std::string flag = FlagOf(files, kCertificate);
  ASSIGN_OR_RETURN(const std::string text, ReadPem(flag, files.certificate));
  std::vector<X509Pointer> chain = ReadCertificates(text);
  if (!chain.empty()) return chain;
  return At(flag, files.certificate,
            absl::InvalidArgumentError("found no certificate, expected one in PEM form"));
}

absl::Status CheckKey(const Files& files, X509* leaf) {
  const std::string& path = files.key;
  const std::string flag = FlagOf(files, kKey);
  ASSIGN_OR_RETURN(const std::string text, ReadPem(flag, path));
  if (const absl::Status mode = CheckKeyMode(path); !mode.ok()) return At(flag, path, mode);
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  // A daemon cannot ask anybody for a passphrase.
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  const bool fits = key != nullptr && X509_check_private_key(leaf, key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return At(flag, path,
              absl::InvalidArgumentError(
                  "found no private key that can be read, expected one in PEM form, unencrypted"));
  }
  if (fits) return absl::OkStatus();
  return At(flag, path,
            absl::FailedPreconditionError(absl::StrCat(
                "found the key of another certificate, expected that of ", files.certificate)));
}

// Reads our certificate, and checks it and its key as far as nobody else is concerned.
absl::StatusOr<std::vector<X509Pointer>> ReadOurs(const Files& files, absl::Time now) {
  ASSIGN_OR_RETURN(std::vector<X509Pointer> chain, ReadChain(files));
  RETURN_IF_ERROR(CheckKey(files, chain.front().get()));
  const absl::Status valid = CheckValidAt(*chain.front(), now);
  if (!valid.ok()) return At(FlagOf(files, kCertificate), files.certificate, valid);
  return chain;
}

// The CA and the token of a user.
absl::StatusOr<Identity> CheckTokenFiles(const Files& files, Role role) {
  const std::string certificate = FlagOf(files, kCertificate), key = FlagOf(files, kKey);
  if (role != Role::kUser) {
    return absl::InvalidArgumentError(absl::StrCat("TLS: found ", kTokenFlag, ", expected ",
                                                   certificate, " and ", key, " of a ",
                                                   RoleName(role)));
  }
  if (!files.certificate.empty() || !files.key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TLS: found ", kTokenFlag, " beside ", files.certificate.empty() ? key : certificate,
        ", expected either the one or ", certificate, " and ", key));
  }
  if (files.ca.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TLS: found ", kTokenFlag, " alone, expected ", FlagOf(files, kCa),
                     " with it: a token is sent only to a coordinator that proves who it is"));
  }
  RETURN_IF_ERROR(ReadRoots(files).status());
  RETURN_IF_ERROR(ReadTokenFile(kTokenFlag, files.token).status());
  return Identity{};
}

}  // namespace

absl::Status CheckKeyMode(const std::string& path, const char* what) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if ((info.st_mode & S_IRWXO) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("found mode %04o, which lets everybody on this machine have the %s; "
                      "expected 0600, or 0640 for a group",
                      info.st_mode & 07777u, what));
}

absl::StatusOr<Identity> CheckFiles(const Files& files, Role role, absl::Time now) {
  if (!files.token.empty()) return CheckTokenFiles(files, role);
  RETURN_IF_ERROR(CheckAllGiven(files));
  ASSIGN_OR_RETURN(const std::vector<X509Pointer> roots, ReadRoots(files));
  ASSIGN_OR_RETURN(const std::vector<X509Pointer> chain, ReadOurs(files, now));
  X509* const leaf = chain.front().get();
  const auto at_certificate = [&](const absl::Status& status) {
    return At(FlagOf(files, kCertificate), files.certificate, status);
  };
  const Purpose purpose = role == Role::kCoordinator ? Purpose::kServer : Purpose::kClient;
  if (const absl::Status chained = CheckChain(chain, roots, now, purpose); !chained.ok()) {
    return at_certificate(absl::FailedPreconditionError(
        absl::StrCat("found a certificate by ", IssuerOf(*leaf), " that does not lead to ",
                     files.ca, " (", chained.message(), "), expected one of that CA")));
  }
  const absl::StatusOr<Identity> identity = IdentityOf(UrisOf(*leaf));
  if (!identity.ok()) {
    return at_certificate(absl::FailedPreconditionError(identity.status().message()));
  }
  if (identity->role == role) return identity;
  return at_certificate(absl::FailedPreconditionError(
      absl::StrCat("found role ", RoleName(identity->role), " (", identity->uri,
                   "), expected role ", RoleName(role))));
}

absl::Status CheckClientFiles(const Files& files, absl::Time now) {
  RETURN_IF_ERROR(CheckAllGiven(files, /*ca_alone=*/true));
  RETURN_IF_ERROR(ReadRoots(files).status());
  return files.key.empty() ? absl::OkStatus() : ReadOurs(files, now).status();
}

std::vector<Lifetime> ReadLifetimes(const Files& files) {
  std::vector<Lifetime> lifetimes;
  if (files.certificate.empty()) return lifetimes;
  const std::vector<X509Pointer> ours = ReadCertificates(ReadFile(files.certificate).value_or(""));
  if (ours.empty()) return lifetimes;
  lifetimes.push_back({"own", BeginOf(*ours.front()), EndOf(*ours.front())});
  for (const X509Pointer& root : ReadCertificates(ReadFile(files.ca).value_or(""))) {
    // The one that ours, or the last of its intermediate ones, is by; others are of a CA that comes
    // or goes.
    if (X509_check_issued(root.get(), ours.back().get()) != X509_V_OK) continue;
    lifetimes.push_back({"ca", BeginOf(*root), EndOf(*root)});
    break;
  }
  return lifetimes;
}

}  // namespace stretto::tls
