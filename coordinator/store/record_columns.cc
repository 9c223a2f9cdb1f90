// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/record_columns.h"

#include "absl/strings/str_cat.h"
#include "coordinator/store/record_codec.h"

namespace stretto::coordinator {
namespace {

absl::Status Expect(const Columns& columns, size_t count, const char* what) {
  if (columns.size() == count) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("stored ", what, ": found ", columns.size(), " values, expected ", count));
}

// The value of a type; one that is missing or of another type is the default.
template <class T>
T Get(const Columns& columns, size_t at) {
  const T* value = std::get_if<T>(&columns[at]);
  return value == nullptr ? T() : *value;
}

}  // namespace

Columns ColumnsOf(const JobRecord& job) {
  return {job.id,
          job.uid,
          job.number,
          static_cast<int64_t>(job.state),
          job.epoch.value(),
          absl::ToUnixNanos(job.create_time),
          StoredBlob{job.spec},
          StoredBlob{job.fingerprint},
          StoredBlob{job.summary.str()},
          EncodeJobBody(job)};
}

Columns ColumnsOf(const WorkerRecord& worker) { return {worker.id, EncodeWorkerBody(worker)}; }

Columns ColumnsOf(const EpochRecord& epoch) { return {epoch.last.value()}; }

// State, epoch and time of creation are in the body, too.
absl::Status FromColumns(const Columns& columns, JobRecord* job) {
  if (absl::Status found = Expect(columns, 10, "job"); !found.ok()) return found;
  job->id = Get<std::string>(columns, 0);
  job->uid = Get<std::string>(columns, 1);
  job->number = Get<int64_t>(columns, 2);
  job->spec = Get<StoredBlob>(columns, 6).bytes;
  job->fingerprint = Get<StoredBlob>(columns, 7).bytes;
  job->summary = Get<StoredBlob>(columns, 8).bytes;
  return DecodeJobBody(Get<std::string>(columns, 9), job);
}

absl::Status FromColumns(const Columns& columns, WorkerRecord* worker) {
  if (absl::Status found = Expect(columns, 2, "worker"); !found.ok()) return found;
  worker->id = Get<std::string>(columns, 0);
  return DecodeWorkerBody(Get<std::string>(columns, 1), worker);
}

absl::Status FromColumns(const Columns& columns, EpochRecord* epoch) {
  if (absl::Status found = Expect(columns, 1, "epoch"); !found.ok()) return found;
  epoch->last = Epoch(Get<int64_t>(columns, 0));
  return absl::OkStatus();
}

}  // namespace stretto::coordinator
