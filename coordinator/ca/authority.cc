// SPDX-License-Identifier: Apache-2.0

// The order of writes is what makes a crash harmless. A CA exists once its certificate does, which
// is therefore the last file of Create. A certificate is recorded before its files are written, and
// a revocation before the list: after a crash the record may have more than the files, never less,
// and the same command again completes them.

#include "coordinator/ca/authority.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/tls/files.h"

namespace stretto::ca {
namespace {

constexpr char kIndex[] = "index";
constexpr char kCaKey[] = "ca.key";
constexpr char kCaCertificate[] = "ca.crt";
constexpr char kCaList[] = "ca.crl";

std::string In(const std::string& folder, const std::string& file) { return folder + "/" + file; }

std::string DayText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

absl::Status AtFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::Status NoCa(const std::string& folder) {
  return absl::NotFoundError(absl::StrCat("found no CA in ", folder, ", expected its files ",
                                          kCaCertificate, ", ", kCaKey, " and ", kIndex,
                                          "; `stretto ca init ", folder, "` makes one"));
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return ::lstat(path.c_str(), &info) == 0;
}

}  // namespace

absl::StatusOr<Index> ReadIndex(const std::string& folder) {
  if (!Exists(In(folder, kCaCertificate))) return NoCa(folder);
  return ReadIndexFile(In(folder, kIndex));
}

Authority::Authority(std::string folder, IndexFile index, Signer signer)
    : folder_(std::move(folder)), index_(std::move(index)), signer_(std::move(signer)) {}

absl::StatusOr<Authority> Authority::Create(const std::string& folder, const std::string& name,
                                            absl::Duration lifetime, absl::Time now) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, absl::StrCat("create ", folder));
  }
  {
    ASSIGN_OR_RETURN(const FileDescriptor lock, LockFile(In(folder, kIndex), O_CREAT));
    if (Exists(In(folder, kCaCertificate))) {
      return absl::AlreadyExistsError(
          absl::StrCat(folder, ": found a CA, expected a folder without one; `stretto ca issue ",
                       folder, "` makes certificates of it"));
    }
    // What an interrupted Create has left behind signed nothing.
    if (::ftruncate(lock.get(), 0) != 0) {
      return ErrnoStatus(errno, absl::StrCat("truncate ", In(folder, kIndex)));
    }
    ASSIGN_OR_RETURN(const Minted made, MintCa(name, now - kBackdate, now + lifetime));
    ASSIGN_OR_RETURN(const Signer signer, Signer::Read(made.certificate, made.key));
    ASSIGN_OR_RETURN(const std::string list, signer.List({}, 0, now));
    RETURN_IF_ERROR(WritePrivateFile(In(folder, kCaKey), made.key));
    RETURN_IF_ERROR(WriteFileAtomic(In(folder, kCaList), list));
    RETURN_IF_ERROR(WriteFileAtomic(In(folder, kCaCertificate), made.certificate));
  }
  return Open(folder);
}

absl::StatusOr<Authority> Authority::Open(const std::string& folder) {
  if (!Exists(In(folder, kCaCertificate))) return NoCa(folder);
  ASSIGN_OR_RETURN(IndexFile index,
                   IndexFile::Open(In(folder, kIndex), {.kind = "certificate",
                                                        .number = "serial number",
                                                        .list = "stretto ca list " + folder}));
  ASSIGN_OR_RETURN(const std::string certificate, ReadFile(In(folder, kCaCertificate)));
  const std::string key_path = In(folder, kCaKey);
  ASSIGN_OR_RETURN(const std::string key, ReadFile(key_path));
  if (const absl::Status mode = tls::CheckKeyMode(key_path); !mode.ok()) {
    return AtFile(key_path, mode);
  }
  absl::StatusOr<Signer> signer = Signer::Read(certificate, key);
  if (!signer.ok()) {
    return AtFile(absl::StrCat(In(folder, kCaCertificate), " and ", kCaKey), signer.status());
  }
  return Authority(folder, std::move(index), *std::move(signer));
}

absl::StatusOr<Issued> Authority::Issue(const Holder& holder, absl::Duration lifetime,
                                        absl::Time now) {
  if (now + lifetime > end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(holder.name, ": found an end at ", DayText(now + lifetime),
                     ", expected one before that of the CA, at ", DayText(end())));
  }
  Issued issued{.serial = NewSerial(),
                .name = holder.name,
                .alternative_names = holder.alternative_names,
                .begin = now - kBackdate,
                .end = now + lifetime};
  ASSIGN_OR_RETURN(const Minted made, signer_.Issue({.serial = issued.serial,
                                                     .common_name = holder.name,
                                                     .alternative_names = holder.alternative_names,
                                                     .begin = issued.begin,
                                                     .end = issued.end}));
  RETURN_IF_ERROR(index_.Issue(issued, now));
  // The key first, so that a program that looks in between finds no new certificate without it for
  // longer than a moment.
  RETURN_IF_ERROR(WritePrivateFile(Path(holder.name + ".key"), made.key));
  RETURN_IF_ERROR(WriteFileAtomic(Path(holder.name + ".crt"), made.certificate));
  return issued;
}

absl::StatusOr<std::vector<Issued>> Authority::Revoke(const std::string& what,
                                                      const std::string& reason, absl::Time now) {
  ASSIGN_OR_RETURN(std::vector<Issued> meant, index_.Revoke(what, reason, now));
  RETURN_IF_ERROR(WriteList(now));
  return meant;
}

absl::Status Authority::WriteList(absl::Time now) {
  std::vector<RevokedSerial> revoked;
  for (const Issued& one : index_.index().issued) {
    if (one.revoked) revoked.push_back({one.serial, *one.revoked});
  }
  ASSIGN_OR_RETURN(const std::string list, signer_.List(revoked, index_.index().lines, now));
  return WriteFileAtomic(Path(kCaList), list);
}

}  // namespace stretto::ca
