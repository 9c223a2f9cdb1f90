// SPDX-License-Identifier: Apache-2.0

// Lists are taken as a whole or not at all: every block of the file must be a list, and every list
// must be signed by a CA of the CA file. A change of a file is seen by its identity, size and time.
// Whether a certificate is revoked is looked up in the lists by OpenSSL and then remembered,
// because reading a certificate takes longer than all else that authorizes a call.

#include "proto/tls/revocation.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "proto/base/files.h"
#include "proto/base/mutex.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/tls/file_version.h"
#include "proto/tls/x509.h"

namespace stretto::tls {
namespace {

constexpr int64_t kMostListBytes = 4 << 20;  // about 100,000 revoked certificates
constexpr size_t kMostVerdicts = 4096;

struct ListFree {
  void operator()(X509_CRL* list) const { X509_CRL_free(list); }
};
using ListPointer = std::unique_ptr<X509_CRL, ListFree>;
using Lists = std::vector<ListPointer>;

absl::Status AtList(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("--tls-crl ", path, ": ", status.message()));
}

size_t CountOf(absl::string_view text, absl::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + word.size())) {
    ++count;
  }
  return count;
}

absl::StatusOr<Lists> ParseLists(const std::string& text) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  Lists lists;
  while (X509_CRL* next = PEM_read_bio_X509_CRL(bio.get(), nullptr, nullptr, nullptr)) {
    lists.emplace_back(next);
  }
  ERR_clear_error();
  // A file that is cut off, or that something was lost from, has a block that is not whole.
  const size_t begins = CountOf(text, "-----BEGIN"), ends = CountOf(text, "-----END");
  if (begins + ends == 0) {
    return absl::InvalidArgumentError("found no revocation list, expected one in PEM form");
  }
  if (lists.size() == begins && lists.size() == ends) return lists;
  return absl::InvalidArgumentError(
      absl::StrCat("found ", lists.size(), " whole revocation lists in ", begins,
                   " beginnings and ", ends, " ends of PEM, expected lists alone, each whole"));
}

// A list with a critical extension has only a part of what is revoked, or that of others.
absl::Status CheckComplete(const X509_CRL& list) {
  for (int i = 0; i < X509_CRL_get_ext_count(&list); ++i) {
    X509_EXTENSION* const extension = X509_CRL_get_ext(&list, i);
    if (X509_EXTENSION_get_critical(extension) == 0) continue;
    char name[80] = "";
    OBJ_obj2txt(name, sizeof(name), X509_EXTENSION_get_object(extension), /*no_name=*/0);
    return absl::InvalidArgumentError(
        absl::StrCat("found a list by ", NameText(X509_CRL_get_issuer(&list)),
                     " with the critical extension ", name, ", expected a complete list"));
  }
  return absl::OkStatus();
}

absl::Status CheckSigned(X509_CRL* list, const std::vector<X509Pointer>& roots,
                         const std::string& ca) {
  const X509_NAME* const issuer = X509_CRL_get_issuer(list);
  for (const X509Pointer& root : roots) {
    if (X509_NAME_cmp(issuer, X509_get_subject_name(root.get())) != 0) continue;
    if (X509_check_ca(root.get()) == 0) continue;
    if ((X509_get_key_usage(root.get()) & KU_CRL_SIGN) == 0) continue;
    if (X509_CRL_verify(list, X509_get0_pubkey(root.get())) == 1) return absl::OkStatus();
  }
  ERR_clear_error();
  return absl::FailedPreconditionError(absl::StrCat("found a list by ", NameText(issuer),
                                                    " that no CA in --tls-ca ", ca,
                                                    " has signed, expected lists of that CA"));
}

absl::StatusOr<Lists> ReadLists(const std::string& ca, const std::string& path) {
  const absl::StatusOr<std::string> roots = ReadFile(ca);
  if (!roots.ok()) {
    return absl::Status(roots.status().code(),
                        absl::StrCat("--tls-ca: ", roots.status().message()));
  }
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMostListBytes);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("--tls-crl: ", text.status().message()));
  }
  absl::StatusOr<Lists> lists = ParseLists(*text);
  if (!lists.ok()) return AtList(path, lists.status());
  const std::vector<X509Pointer> certificates = ReadCertificates(*roots);
  for (const ListPointer& list : *lists) {
    absl::Status good = CheckComplete(*list);
    if (good.ok()) good = CheckSigned(list.get(), certificates, ca);
    if (!good.ok()) return AtList(path, good);
  }
  return lists;
}

absl::Status Look(const Lists& lists, const std::string& pem) {
  const std::vector<X509Pointer> certificates = ReadCertificates(pem);
  if (certificates.size() != 1) {
    return absl::UnauthenticatedError("certificate: found none that can be read, expected one");
  }
  X509* const certificate = certificates[0].get();
  for (const ListPointer& list : lists) {
    X509_REVOKED* found = nullptr;
    if (X509_CRL_get0_by_cert(list.get(), &found, certificate) == 0) continue;
    return absl::UnauthenticatedError(absl::StrCat(
        "certificate ", SerialOf(*certificate), " (",
        Escaped(absl::StrJoin(UrisOf(*certificate), " ")),
        "): found it revoked by its CA, expected one that is valid; ask for a new one"));
  }
  return absl::OkStatus();
}

}  // namespace

struct Revocations::Impl {
  Impl(std::string ca_file, std::string lists_file)
      : ca(std::move(ca_file)), path(std::move(lists_file)) {}
  std::pair<FileVersion, FileVersion> Versions() const { return {VersionOf(ca), VersionOf(path)}; }

  const std::string ca, path;
  std::pair<FileVersion, FileVersion> versions;  // of what was read last

  mutable Mutex mu;
  Lists lists GUARDED_BY(mu);  // the last good ones
  absl::Status status GUARDED_BY(mu);
  mutable std::unordered_map<std::string, absl::Status> verdicts GUARDED_BY(mu);
};

Revocations::Revocations(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Revocations::~Revocations() = default;

absl::StatusOr<std::unique_ptr<Revocations>> Revocations::Open(const std::string& ca,
                                                               const std::string& path) {
  auto impl = std::make_unique<Impl>(ca, path);
  // Before they are read: a change meanwhile is read by the next Refresh.
  impl->versions = impl->Versions();
  ASSIGN_OR_RETURN(Lists lists, ReadLists(ca, path));
  {
    const MutexLock lock(impl->mu);
    impl->lists = std::move(lists);
  }
  return std::unique_ptr<Revocations>(new Revocations(std::move(impl)));
}

bool Revocations::Refresh() {
  const auto versions = impl_->Versions();
  if (versions == impl_->versions) return false;
  impl_->versions = versions;
  absl::StatusOr<Lists> lists = ReadLists(impl_->ca, impl_->path);
  const MutexLock lock(impl_->mu);
  impl_->status = lists.status();
  if (!lists.ok()) return true;
  impl_->lists = *std::move(lists);
  impl_->verdicts.clear();
  return true;
}

absl::Status Revocations::status() const {
  const MutexLock lock(impl_->mu);
  return impl_->status;
}

int Revocations::count() const {
  const MutexLock lock(impl_->mu);
  int count = 0;
  for (const ListPointer& list : impl_->lists) {
    const STACK_OF(X509_REVOKED)* revoked = X509_CRL_get_REVOKED(list.get());
    if (revoked != nullptr) count += sk_X509_REVOKED_num(revoked);
  }
  return count;
}

absl::Status Revocations::Check(const std::string& certificate) const {
  const MutexLock lock(impl_->mu);
  const auto found = impl_->verdicts.find(certificate);
  if (found != impl_->verdicts.end()) return found->second;
  if (impl_->verdicts.size() >= kMostVerdicts) impl_->verdicts.clear();
  return impl_->verdicts.emplace(certificate, Look(impl_->lists, certificate)).first->second;
}

}  // namespace stretto::tls
