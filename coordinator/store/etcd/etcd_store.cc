// SPDX-License-Identifier: Apache-2.0

// A commit is one transaction. One that is too large is written as parts first, each in a
// transaction of its own under a key that nobody reads; then one transaction names them in
// `commit`, which is the moment at which all is stored; then the parts are carried out and erased.
// Whoever opens the store carries out what is left of them, before anything is read.
//
// The leader alone writes, so it keeps in memory what its conditions need: the epoch, and the uids
// and numbers of jobs. After an outcome that is not known, all of it is read again.

#include "coordinator/store/etcd/etcd_store.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/store/etcd/etcd_parts.h"
#include "coordinator/store/etcd/etcd_rows.h"
#include "coordinator/store/etcd/job_keys.h"
#include "proto/base/ids.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr absl::Duration kRead = absl::Seconds(5);
constexpr int64_t kPageOfKeys = 100;
constexpr int kTries = 3;

class EtcdStore final : public JobStore {
 public:
  EtcdStore(EtcdClient& client, Leadership& leadership, EtcdStoreOptions options)
      : client_(client), leadership_(leadership), options_(std::move(options)) {}

  absl::StatusOr<Snapshot> Load() override {
    for (int tries = 0;; ++tries) {
      absl::StatusOr<Snapshot> snapshot = Read();
      // Somebody has dropped the history while we read.
      if (!absl::IsOutOfRange(snapshot.status()) || tries == kTries) return snapshot;
    }
  }

  absl::Status Commit(const std::vector<Record>& records) override {
    if (!leadership_.Held()) return NotLeader();
    absl::Status status;
    for (int tries = 0; tries < kTries; ++tries) {
      if (!known_) RETURN_IF_ERROR(Refresh());
      EtcdWrites writes;
      const EpochRecord epoch = epoch_;
      status = Collect(records, &writes);
      if (status.ok()) status = Store(writes);
      if (status.ok()) {
        keys_.Keep();
        // Nobody may learn of it from one who does not lead any more.
        return leadership_.Held() ? absl::OkStatus() : NotLeader();
      }
      keys_.Undo();
      epoch_ = epoch;
      if (!absl::IsCancelled(status)) break;  // an earlier commit has come first
    }
    return status;
  }

  // Makes the cluster if there is none, and carries out what an earlier leader left.
  absl::Status Open() {
    ASSIGN_OR_RETURN(const std::string cluster, ReadEtcdCluster(client_, options_));
    if (cluster.empty()) {
      ASSIGN_OR_RETURN(commit_revision_, RevisionOf(Key("commit")));
      const std::string id = options_.new_cluster_id.empty() ? NewUid() : options_.new_cluster_id;
      RETURN_IF_ERROR(Advance({{Key("schema"), EncodeRow("schema", SchemaColumns())},
                               {Key("cluster"), EncodeRow("cluster", ClusterColumns(id))},
                               {Key("epoch"), EncodeRow("epoch", ColumnsOf(EpochRecord{}))}},
                              {.id = NewUid()}));
    }
    return Refresh();
  }

 private:
  std::string Key(absl::string_view name) const { return absl::StrCat(options_.prefix, name); }
  std::string PartsKey(const std::string& commit) const {
    return absl::StrCat(options_.prefix, "parts/", commit, "/");
  }
  absl::Status NotLeader() const {
    return absl::AbortedError(absl::StrCat("this coordinator no longer leads under ",
                                           options_.prefix, " of ", client_.name()));
  }

  // ---- reading

  absl::StatusOr<int64_t> RevisionOf(const std::string& key) {
    ASSIGN_OR_RETURN(const EtcdRange found, client_.Range({.key = key}, kRead));
    return found.values.empty() ? 0 : found.values[0].mod_revision;
  }

  // Calls `visit` for every row of a table of many, as of `revision`.
  template <class RecordType>
  absl::Status ReadTable(const char* table, int64_t revision, std::vector<RecordType>* records) {
    const std::string prefix = Key(absl::StrCat(table, "/"));
    std::string from;
    for (bool more = true; more;) {
      ASSIGN_OR_RETURN(const EtcdRange page, client_.Range({.key = prefix,
                                                            .prefix = true,
                                                            .from = from,
                                                            .limit = kPageOfKeys,
                                                            .revision = revision},
                                                           kRead));
      for (const EtcdValue& row : page.values) {
        ASSIGN_OR_RETURN(const Columns columns, DecodeRow(table, row));
        RecordType& record = records->emplace_back();
        RETURN_IF_ERROR(FromColumns(columns, &record));
        if (prefix + record.id == row.key) continue;
        return absl::DataLossError(absl::StrCat("key ", row.key,
                                                " in etcd is damaged: found the "
                                                "record of \"",
                                                record.id, "\""));
      }
      more = page.more;
      if (more) from = page.values.back().key + '\0';
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Columns> ReadRow(const char* table, int64_t revision) {
    ASSIGN_OR_RETURN(const EtcdRange found,
                     client_.Range({.key = Key(table), .revision = revision}, kRead));
    if (!found.values.empty()) return DecodeRow(table, found.values[0]);
    return absl::DataLossError(absl::StrCat("found no key ", Key(table), " in ", client_.name(),
                                            ", expected one. Restore a snapshot of etcd"));
  }

  absl::StatusOr<Snapshot> Read() {
    Snapshot snapshot;
    ASSIGN_OR_RETURN(const EtcdRange now, client_.Range({.key = Key("commit")}, kRead));
    ASSIGN_OR_RETURN(const Columns epoch, ReadRow("epoch", now.revision));
    RETURN_IF_ERROR(FromColumns(epoch, &snapshot.epoch));
    ASSIGN_OR_RETURN(const Columns cluster, ReadRow("cluster", now.revision));
    const auto* id = cluster.empty() ? nullptr : std::get_if<std::string>(&cluster[0]);
    if (id != nullptr) snapshot.cluster_id = *id;
    RETURN_IF_ERROR(ReadTable("jobs", now.revision, &snapshot.jobs));
    RETURN_IF_ERROR(ReadTable("workers", now.revision, &snapshot.workers));
    std::sort(snapshot.jobs.begin(), snapshot.jobs.end(),
              [](const JobRecord& a, const JobRecord& b) { return a.number < b.number; });
    return snapshot;
  }

  // Finds out what is stored.
  absl::Status Refresh() {
    ASSIGN_OR_RETURN(const EtcdRange found, client_.Range({.key = Key("commit")}, kRead));
    if (found.values.empty()) {
      return absl::DataLossError(absl::StrCat("found no key ", Key("commit"), " in ",
                                              client_.name(), ". Restore a snapshot of etcd"));
    }
    ASSIGN_OR_RETURN(const CommitRow commit, DecodeCommit(found.values[0]));
    commit_revision_ = found.values[0].mod_revision;
    if (commit.parts > 0) RETURN_IF_ERROR(CarryOut(commit));
    ASSIGN_OR_RETURN(const Snapshot snapshot, Load());
    keys_ = JobKeys();
    for (const JobRecord& job : snapshot.jobs) {
      if (absl::Status unique = keys_.Put(job); !unique.ok()) {
        return absl::DataLossError(unique.message());
      }
    }
    keys_.Keep();
    epoch_ = snapshot.epoch;
    known_ = true;
    return absl::OkStatus();
  }

  // ---- writing

  absl::Status Collect(const std::vector<Record>& records, EtcdWrites* writes) {
    for (const Record& record : records) {
      RETURN_IF_ERROR(std::visit([&](const auto& r) { return Put(r, writes); }, record));
    }
    return absl::OkStatus();
  }
  absl::Status Put(const JobRecord& job, EtcdWrites* writes) {
    RETURN_IF_ERROR(keys_.Put(job));
    (*writes)[Key("jobs/" + job.id)] = EncodeRow("jobs", ColumnsOf(job));
    return absl::OkStatus();
  }
  absl::Status Put(const WorkerRecord& worker, EtcdWrites* writes) {
    (*writes)[Key("workers/" + worker.id)] = EncodeRow("workers", ColumnsOf(worker));
    return absl::OkStatus();
  }
  absl::Status Put(const EpochRecord& epoch, EtcdWrites* writes) {
    if (epoch.last < epoch_.last) {
      return absl::InvalidArgumentError(absl::StrCat(
          "epoch ", epoch.last.value(), " is lower than the stored one, ", epoch_.last.value()));
    }
    epoch_ = epoch;
    (*writes)[Key("epoch")] = EncodeRow("epoch", ColumnsOf(epoch));
    return absl::OkStatus();
  }
  absl::Status Put(const JobErased& erased, EtcdWrites* writes) {
    keys_.Erase(erased.id);
    (*writes)[Key("jobs/" + erased.id)] = std::nullopt;
    return absl::OkStatus();
  }
  absl::Status Put(const WorkerErased& erased, EtcdWrites* writes) {
    (*writes)[Key("workers/" + erased.id)] = std::nullopt;
    return absl::OkStatus();
  }

  absl::Status Store(const EtcdWrites& writes) {
    ASSIGN_OR_RETURN(const std::vector<EtcdWrites> parts,
                     SplitWrites(writes, options_.max_operations - 1, options_.max_bytes));
    CommitRow commit{.id = NewUid(), .parts = 0};
    if (parts.size() == 1) {
      RETURN_IF_ERROR(Advance(parts[0], commit));
    } else {
      commit.parts = static_cast<int64_t>(parts.size());
      for (size_t i = 0; i < parts.size(); ++i) {
        RETURN_IF_ERROR(WritePart(absl::StrCat(PartsKey(commit.id), i), parts[i]));
      }
      RETURN_IF_ERROR(Advance({}, commit));
      // It is stored, whatever happens now; the next commit begins with the rest.
      if (!CarryOut(commit).ok()) known_ = false;
    }
    Compact();
    return absl::OkStatus();
  }

  absl::Status WritePart(const std::string& key, const EtcdWrites& writes) {
    const absl::StatusOr<EtcdAnswer> answer =
        client_.Commit({.compares = {leadership_.Fence()},
                        .writes = {{.key = key, .value = EncodePart(writes)}},
                        .reads = {leadership_.key()}},
                       options_.commit_within);
    RETURN_IF_ERROR(answer.status());
    if (answer->succeeded) return absl::OkStatus();
    leadership_.IsMine(answer->values.empty() ? nullptr : &answer->values[0]);
    return NotLeader();
  }

  // Writes what the parts of `commit` contain, and erases them with the last.
  absl::Status CarryOut(const CommitRow& commit) {
    for (int64_t i = 0; i < commit.parts; ++i) {
      const std::string key = absl::StrCat(PartsKey(commit.id), i);
      ASSIGN_OR_RETURN(const EtcdRange found, client_.Range({.key = key}, kRead));
      if (found.values.empty()) {
        return absl::DataLossError(absl::StrCat("found no key ", key, " in ", client_.name(),
                                                ", which the newest commit needs. Restore a "
                                                "snapshot of etcd"));
      }
      ASSIGN_OR_RETURN(const EtcdWrites writes, DecodePart(found.values[0]));
      // Doing it again does no harm, so `commit` names them until all are done.
      const bool last = i + 1 == commit.parts;
      RETURN_IF_ERROR(Advance(writes, {.id = commit.id, .parts = last ? 0 : commit.parts}));
    }
    // Of commits that were never completed, too.
    client_
        .Commit({.compares = {leadership_.Fence()},
                 .writes = {{.key = Key("parts/"), .value = std::nullopt, .prefix = true}},
                 .reads = {}},
                options_.commit_within)
        .IgnoreError();
    return absl::OkStatus();
  }

  // One transaction: `writes`, and `commit` as the newest. Errors: Cancelled (an earlier one, of
  // which we did not know, has come first), Aborted (another one leads), those of EtcdClient.
  absl::Status Advance(const EtcdWrites& writes, const CommitRow& commit) {
    const std::string key = Key("commit");
    const std::string row = EncodeRow(
        "commit",
        ColumnsOf(CommitRow{.id = commit.id, .parts = commit.parts, .transaction = NewUid()}));
    EtcdTransaction transaction{
        .compares = {leadership_.Fence(), {.key = key, .revision = commit_revision_}},
        .writes = {{.key = key, .value = row}},
        .reads = {leadership_.key(), key}};
    for (const auto& [name, value] : writes) {
      transaction.writes.push_back({.key = name, .value = value});
    }
    known_ = false;
    const absl::StatusOr<EtcdAnswer> committed =
        client_.Commit(transaction, options_.commit_within);
    if (absl::IsUnavailable(committed.status())) {
      return absl::UnavailableError(
          absl::StrCat(committed.status().message(), "; whether this was stored is not known yet"));
    }
    RETURN_IF_ERROR(committed.status());
    const EtcdAnswer& answer = *committed;
    const auto find = [&](const std::string& name) -> const EtcdValue* {
      for (const EtcdValue& value : answer.values) {
        if (value.key == name) return &value;
      }
      return nullptr;
    };
    if (answer.succeeded) {
      commit_revision_ = answer.revision;
    } else {
      if (!leadership_.IsMine(find(leadership_.key()))) return NotLeader();
      const EtcdValue* newest = find(key);
      // A first copy of this transaction may have been carried out, and its answer lost.
      if (newest == nullptr || newest->value != row) {
        return absl::CancelledError("an earlier commit was stored after all");
      }
      commit_revision_ = newest->mod_revision;
    }
    known_ = true;
    return absl::OkStatus();
  }

  void Compact() {
    if (++commits_ % options_.commits_per_compaction != 0) return;
    const int64_t before = std::exchange(compact_to_, commit_revision_);
    if (before > 0) client_.Compact(before, options_.commit_within).IgnoreError();
  }

  EtcdClient& client_;
  Leadership& leadership_;
  const EtcdStoreOptions options_;
  // What is stored; not known_ after a commit whose outcome is not known.
  bool known_ = false;
  int64_t commit_revision_ = 0;  // of key `commit`
  JobKeys keys_;
  EpochRecord epoch_;
  int64_t commits_ = 0;
  int64_t compact_to_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobStore>> OpenEtcdStore(EtcdClient& client, Leadership& leadership,
                                                        const EtcdStoreOptions& options) {
  auto store = std::make_unique<EtcdStore>(client, leadership, options);
  RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace stretto::coordinator
