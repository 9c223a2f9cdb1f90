// SPDX-License-Identifier: Apache-2.0

// The target is closed, or has another name, until it is whole; the source is closed, or gets
// another name, before the target is opened. So there is no moment at which both could be used.

#include "coordinator/store/etcd/move_state.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/store/database_files.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr absl::Duration kLook = absl::Seconds(5);

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
  return SyncPath(FolderOf(to));
}

std::string NameOf(EtcdClient& client, const EtcdStoreOptions& options) {
  return absl::StrCat(options.prefix, " of ", client.name());
}

// Keys beyond that of the leader, who calls this.
absl::Status CheckIsEmpty(EtcdClient& client, const Leadership& leadership,
                          const EtcdStoreOptions& options) {
  ASSIGN_OR_RETURN(
      const EtcdRange found,
      client.Range({.key = options.prefix, .prefix = true, .from = "", .limit = 2}, kLook));
  for (const EtcdValue& value : found.values) {
    if (value.key == leadership.key()) continue;
    return absl::AlreadyExistsError(
        absl::StrCat(NameOf(client, options), ": found key ", value.key,
                     ", expected none. Give another --etcd-prefix, or erase what is there, once "
                     "nobody needs it: etcdctl del --prefix ",
                     options.prefix));
  }
  return absl::OkStatus();
}

absl::Status CheckIsMissing(const std::string& path) {
  for (const std::string& file : {path, path + "-wal"}) {
    if (!Exists(file)) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("job store ", path, ": found ", file,
                     ", expected none: it is not overwritten. Give an empty --state-dir"));
  }
  return absl::OkStatus();
}

// Stores all records at once, and reads them again.
absl::StatusOr<MoveReport> Copy(const Snapshot& from, JobStore& to) {
  std::vector<Record> records = {from.epoch};
  records.insert(records.end(), from.workers.begin(), from.workers.end());
  records.insert(records.end(), from.jobs.begin(), from.jobs.end());
  RETURN_IF_ERROR(to.Commit(records));
  ASSIGN_OR_RETURN(const Snapshot copy, to.Load());
  if (copy != from) {
    return absl::DataLossError(absl::StrCat(
        "the copy: found ", copy.jobs.size(), " jobs and ", copy.workers.size(), " workers of ",
        copy.cluster_id, " that differ, expected the ", from.jobs.size(), " and ",
        from.workers.size(), " of ", from.cluster_id, "; the state stays where it was"));
  }
  return MoveReport{.jobs = std::ssize(copy.jobs),
                    .workers = std::ssize(copy.workers),
                    .cluster_id = copy.cluster_id,
                    .left = ""};
}

// Of a database that was closed: its log, if any, is a part of it that did not fit.
absl::Status CheckHasNoLog(const std::string& path) {
  if (!Exists(path + "-wal")) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("job store ", path, ": found its log ", path,
                   "-wal, expected all of it in the database: is the disk full?"));
}

}  // namespace

absl::StatusOr<MoveReport> MoveToEtcd(const std::string& path, EtcdClient& client,
                                      Leadership& leadership, const EtcdStoreOptions& options) {
  RETURN_IF_ERROR(CheckIsEmpty(client, leadership, options));
  if (!Exists(path))
    return absl::NotFoundError(absl::StrCat("job store ", path, " does not exist"));
  ASSIGN_OR_RETURN(std::unique_ptr<JobStore> from, OpenSqliteStore(path));
  ASSIGN_OR_RETURN(const Snapshot snapshot, from->Load());
  int number = 1;
  const auto aside = [&] { return absl::StrCat(path, ".moved-", number); };
  while (Exists(aside())) ++number;

  RETURN_IF_ERROR(SetClosed(client, leadership, options,
                            absl::StrCat("the move of ", path,
                                         " to etcd was not completed. Erase what is here (etcdctl "
                                         "del --prefix ",
                                         options.prefix, "), rename ", aside(), " to ", path,
                                         " if that is missing, and move it again")));
  EtcdStoreOptions closed = options;
  closed.even_if_closed = true;
  closed.new_cluster_id = snapshot.cluster_id;
  ASSIGN_OR_RETURN(const std::unique_ptr<JobStore> to, OpenEtcdStore(client, leadership, closed));
  ASSIGN_OR_RETURN(MoveReport report, Copy(snapshot, *to));
  from.reset();
  RETURN_IF_ERROR(CheckHasNoLog(path));
  report.left = aside();
  RETURN_IF_ERROR(Rename(path, report.left));
  RETURN_IF_ERROR(SetClosed(client, leadership, options, std::nullopt));
  return report;
}

absl::StatusOr<MoveReport> MoveToDatabase(EtcdClient& client, Leadership& leadership,
                                          const EtcdStoreOptions& options,
                                          const std::string& path) {
  RETURN_IF_ERROR(CheckIsMissing(path));
  ASSIGN_OR_RETURN(const std::string cluster, ReadEtcdCluster(client, options));
  if (cluster.empty()) {
    return absl::NotFoundError(
        absl::StrCat(NameOf(client, options), ": found no cluster, expected one to move"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<JobStore> from,
                   OpenEtcdStore(client, leadership, options));
  ASSIGN_OR_RETURN(const Snapshot snapshot, from->Load());

  const std::string fresh = path + ".moving";
  for (const char* left : {"", "-wal", "-shm"}) unlink(absl::StrCat(fresh, left).c_str());
  ASSIGN_OR_RETURN(std::unique_ptr<JobStore> to,
                   OpenSqliteStore(fresh, {.cluster_id = snapshot.cluster_id}));
  ASSIGN_OR_RETURN(MoveReport report, Copy(snapshot, *to));
  to.reset();
  RETURN_IF_ERROR(CheckHasNoLog(fresh));
  RETURN_IF_ERROR(SyncPath(fresh));
  RETURN_IF_ERROR(SetClosed(
      client, leadership, options,
      absl::StrCat("the state has moved to the database ", path, " (if that is missing, rename ",
                   fresh, " to it). Start the coordinator on its folder, without etcd")));
  RETURN_IF_ERROR(Rename(fresh, path));
  report.left = NameOf(client, options);
  return report;
}

}  // namespace stretto::coordinator
