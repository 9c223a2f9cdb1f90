// SPDX-License-Identifier: Apache-2.0

// Every leaf of every table is read, whether a tree still leads there or not, and the records whose
// checksum is right go into a new database. Deleted records are overwritten (schema.cc), so what is
// found is what was stored. Names of lost records come from the damaged records themselves and,
// as far as SQLite can still read them, from the indexes: they are for the report alone.

#include "coordinator/store/repair.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/store/database_files.h"
#include "coordinator/store/job_store.h"
#include "coordinator/store/leaf_records.h"
#include "coordinator/store/page_image.h"
#include "coordinator/store/schema.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

// The records of one table.
struct Salvaged {
  std::map<std::string, std::vector<StoredValue>> whole;  // by id; of a table of one record, by ""
  std::set<int64_t> row_ids;                              // of whole records
  std::set<std::string> damaged;                          // ids of records that are not whole
  std::set<std::string> ambiguous;                        // ids of several, all of them whole
};
using SalvagedTables = std::map<std::string, Salvaged>;

int64_t ColumnsOf(const StoredTable& table) {
  const std::string columns = table.columns;
  return 2 + std::count(columns.begin(), columns.end(), ',');  // with the checksum
}

bool HasId(const StoredTable& table) { return absl::StartsWith(table.columns, "id, "); }

std::string IdOf(const StoredTable& table, const std::vector<StoredValue>& values) {
  const auto* id = HasId(table) ? std::get_if<std::string>(&values[1]) : nullptr;
  return id == nullptr ? "" : *id;
}

SalvagedTables Salvage(const PageImage& image) {
  SalvagedTables tables;
  for (const StoredTable& table : kTables) tables[table.name];
  ForEachLeafRecord(image, [&](LeafRecord record) {
    for (const StoredTable& table : kTables) {
      if (static_cast<int64_t>(record.values.size()) != ColumnsOf(table)) continue;
      Salvaged& salvaged = tables[table.name];
      const std::string id = IdOf(table, record.values);
      if (!IsWhole(table.name, record.values)) {
        if (HasId(table) && !id.empty()) salvaged.damaged.insert(id);
        continue;
      }
      const auto [found, added] = salvaged.whole.emplace(id, record.values);
      if (added || found->second == record.values) {
        salvaged.row_ids.insert(record.row_id);
      } else {
        salvaged.ambiguous.insert(id);
      }
    }
  });
  for (auto& [name, salvaged] : tables) {
    for (const std::string& id : salvaged.ambiguous) salvaged.whole.erase(id);
  }
  return tables;
}

// Adds what an index has and `salvaged` has not to `lost`. Returns whether one index could be read
// to its end, so that nothing else is missing.
bool AddLostNames(const StoredTable& table, const Salvaged& salvaged, SqliteDatabase& database,
                  std::set<std::string>* lost) {
  std::set<int64_t> known = salvaged.row_ids;
  for (int index = 1;; ++index) {
    const std::string name = absl::StrCat("sqlite_autoindex_", table.name, "_", index);
    const char* id = index == 1 ? "id" : "''";
    absl::StatusOr<SqliteStatement> entries = database.Prepare(
        absl::StrCat("SELECT rowid, ", id, " FROM ", table.name, " INDEXED BY ", name));
    if (!entries.ok()) return false;
    for (;;) {
      const absl::StatusOr<bool> row = entries->Step();
      if (!row.ok()) break;
      if (!*row) return true;
      const std::string found = entries->Text(1);
      if (salvaged.whole.contains(found) || !known.insert(entries->Integer(0)).second) continue;
      lost->insert(found.empty() ? absl::StrCat("record ", entries->Integer(0)) : found);
    }
  }
}

void ReportLost(const StoredTable& table, const Salvaged& salvaged, const Salvaged& later,
                SqliteDatabase* database, std::set<std::string>* kept, std::set<std::string>* lost,
                RepairReport* report) {
  for (const auto& [id, values] : salvaged.whole) kept->insert(id);
  *lost = salvaged.ambiguous;
  if (database == nullptr || !AddLostNames(table, salvaged, *database, lost)) {
    report->names_known = false;
    for (const std::string& id : salvaged.damaged) {
      if (!kept->contains(id)) lost->insert(id);
    }
  }
  if (!report->lost_transactions) return;
  report->names_known = false;  // those in the damaged part of the log are not
  for (const auto& [id, values] : later.whole) {
    if (!kept->contains(id)) lost->insert(id);
  }
  for (const std::string& id : later.damaged) {
    if (!kept->contains(id)) lost->insert(id);
  }
  for (const auto& [id, values] : salvaged.whole) {
    const auto found = later.whole.find(id);
    if (found == later.whole.end() || found->second != values) report->older.insert(id);
  }
}

absl::Status Insert(const StoredTable& table, const std::vector<StoredValue>& values,
                    SqliteDatabase& database) {
  std::vector<std::string> places;
  for (size_t i = 1; i <= values.size(); ++i) places.push_back(absl::StrCat("?", i));
  ASSIGN_OR_RETURN(SqliteStatement insert,
                   database.Prepare(absl::StrCat("INSERT INTO ", table.name, " VALUES (",
                                                 absl::StrJoin(places, ", "), ")")));
  insert.Bind(values);
  return insert.Step().status();
}

// The newest epoch of which a whole record knows.
int64_t NewestEpoch(const SalvagedTables& tables) {
  int64_t newest = 0;
  const auto look = [&](const char* table, size_t column) {
    for (const auto& [id, values] : tables.at(table).whole) {
      if (const auto* epoch = std::get_if<int64_t>(&values[column]))
        newest = std::max(newest, *epoch);
    }
  };
  look("epoch", 1);
  look("jobs", 5);
  return newest;
}

absl::Status WriteRecords(const SalvagedTables& tables, const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database, OpenForWriting(path));
  RETURN_IF_ERROR(database->Run("BEGIN IMMEDIATE"));
  for (const StoredTable& table : kTables) {
    if (absl::string_view(table.name) == "epoch") continue;
    const auto& records = tables.at(table.name).whole;
    // A new database has an id of its own, which remains if the other one is lost.
    if (!records.empty()) RETURN_IF_ERROR(database->Run(absl::StrCat("DELETE FROM ", table.name)));
    for (const auto& [id, values] : records) RETURN_IF_ERROR(Insert(table, values, *database));
  }
  const int64_t epoch = NewestEpoch(tables);
  RETURN_IF_ERROR(database->Run(absl::StrCat(
      "UPDATE epoch SET last = ", epoch, ", checksum = record_checksum('epoch', ", epoch, ")")));
  return database->Run("COMMIT");
}

absl::Status BuildDatabase(const SalvagedTables& tables, const std::string& path) {
  RETURN_IF_ERROR(CreateDatabase(path));
  RETURN_IF_ERROR(WriteRecords(tables, path));
  ASSIGN_OR_RETURN(const std::unique_ptr<JobStore> store, OpenSqliteStore(path));  // checks it
  return SkipEpochs(*store).status();
}

// Records of versions without checksums cannot be judged.
absl::Status CheckHasChecksums(const std::string& path, const PageImage& image) {
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(image.pages[at + i]);
    return static_cast<int32_t>(value);
  };
  const int64_t version = image.count() > 0 ? number(60) : 0;
  if (version < 1 || ApplicationId(version) != 0 || number(68) != 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, " has schema version ", version,
                   ", whose records have no checksums, so a damaged one "
                   "cannot be told from a whole one. Restore a copy of it"));
}

std::string Names(const std::set<std::string>& names) {
  return absl::StrJoin(names, ", ", [](std::string* out, const std::string& name) {
    absl::StrAppend(out, "\"", absl::Utf8SafeCEscape(name), "\"");
  });
}

}  // namespace

absl::StatusOr<RepairReport> RepairSqliteStore(const std::string& path) {
  RETURN_IF_ERROR(CheckFolder(path));
  RepairReport report;
  ASSIGN_OR_RETURN(report.aside, FinishReplacement(path));
  report.names_known = report.aside.empty();  // the interrupted repair knew those that it lost
  if (access(path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("job store ", path, " does not exist"));
  }
  const absl::Status found = OpenWhole(path).status();
  if (found.ok() || !absl::IsDataLoss(found)) {
    RETURN_IF_ERROR(found);
    return report;
  }
  report.damage = std::string(found.message());
  ASSIGN_OR_RETURN(const PageImage image, ReadPageImage(path));
  const SalvagedTables tables = Salvage(image);
  const SalvagedTables later =
      Salvage({.pages = image.later_pages, .log_damage = {}, .later_pages = {}});
  RETURN_IF_ERROR(CheckHasChecksums(path, image));
  if (std::all_of(tables.begin(), tables.end(),
                  [](const auto& table) { return table.second.whole.empty(); })) {
    return absl::DataLossError(
        absl::StrCat("job store ", path,
                     ": found no record that is whole. Restore a copy of it, or remove it "
                     "to begin a new cluster"));
  }
  report.lost_transactions = image.log_damage.has_value();
  report.lost_cluster_id = tables.at("cluster").whole.empty();
  {
    const auto database = SqliteDatabase::Open(path, SqliteDatabase::IfMissing::kRefuse);
    SqliteDatabase* readable = database.ok() ? database->get() : nullptr;
    if (readable != nullptr) readable->KeepLog(true);
    ReportLost(kTables[0], tables.at("jobs"), later.at("jobs"), readable, &report.kept_jobs,
               &report.lost_jobs, &report);
    ReportLost(kTables[1], tables.at("workers"), later.at("workers"), readable,
               &report.kept_workers, &report.lost_workers, &report);
  }
  const std::string fresh = path + ".new";
  RETURN_IF_ERROR(BuildDatabase(tables, fresh));
  RETURN_IF_ERROR(ReplaceDatabase(path, fresh));
  ASSIGN_OR_RETURN(report.aside, FinishReplacement(path));
  return report;
}

std::string RepairReport::Text() const {
  const std::string end = absl::StrCat("\nthe damaged database is now ", aside, "\n");
  if (damage.empty() && !aside.empty()) {
    return absl::StrCat("completed a repair that was interrupted; what it lost is not known", end);
  }
  if (damage.empty()) return "the database is whole; nothing was changed\n";
  std::string text = absl::StrCat(damage, "\nkept ", kept_jobs.size(), " jobs and ",
                                  kept_workers.size(), " workers");
  const auto list = [&](absl::string_view what, const std::set<std::string>& names) {
    if (!names.empty()) absl::StrAppend(&text, "\n", what, ": ", Names(names));
  };
  list("kept jobs", kept_jobs);
  list("kept workers", kept_workers);
  absl::StrAppend(&text, "\nlost ", lost_jobs.size(), " jobs and ", lost_workers.size(),
                  " workers");
  list("lost jobs", lost_jobs);
  list("lost workers", lost_workers);
  list("older than they were, because later transactions are lost", older);
  if (lost_transactions) absl::StrAppend(&text, "\nlost the last transactions");
  if (!names_known) {
    absl::StrAppend(&text, "\nthe list of names is damaged too: more records may be lost");
  }
  if (lost_cluster_id) {
    absl::StrAppend(&text,
                    "\nlost the id of the cluster, and drew another: start each worker once "
                    "with --join-new-cluster");
  }
  return absl::StrCat(text, end);
}

}  // namespace stretto::coordinator
