// SPDX-License-Identifier: Apache-2.0

// Files of framed records: any bytes as a report log and as a trace are read to their end, damage
// and torn records included. A log that is opened again can be appended to, and the record is read.
// The same bytes as the page of a trainer's position, and as the text of a program.
//
// A checksum guards a record, so an input is also taken for messages, each after two bytes with its
// length, which are framed here; bytes that are no whole message come behind them as they are.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "proto/base/check.h"
#include "stretto/v1alpha1/worker.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/report/flight_record.h"
#include "worker/report/record_file.h"
#include "worker/report/report_log.h"
#include "worker/report/trace_log.h"

namespace {

using stretto::fuzz::Folder;

std::string Framed(absl::string_view bytes) {
  std::string out;
  while (bytes.size() >= 2) {
    const size_t length = static_cast<uint8_t>(bytes[0]) + 256 * static_cast<uint8_t>(bytes[1]);
    if (length == 0 || length > bytes.size() - 2) break;
    stretto::AppendRecord(bytes.substr(2, length), &out);
    bytes.remove_prefix(2 + length);
  }
  return out.append(bytes.data(), bytes.size());
}

void ReadReports(absl::string_view bytes) {
  const std::string path = Folder::Get().Write("reports.log", bytes);
  int64_t last = 0;
  const auto found = stretto::ReadAfter(path, 0);
  STRETTO_CHECK(found.ok());
  for (const auto& report : *found) {
    STRETTO_CHECK(report.sequence() == last + 1);  // without gaps, as the coordinator insists
    last = report.sequence();
  }
  auto log = stretto::ReportLog::Open(path);
  if (!log.ok()) return;
  stretto::v1alpha1::RankReport report;
  report.mutable_exit()->set_reason("Completed");
  if (log->last_sequence() >= (int64_t{1} << 40)) return;
  STRETTO_CHECK(log->Append(&report).ok());
  const auto after = stretto::ReadAfter(path, report.sequence() - 1);
  STRETTO_CHECK(after.ok() && after->size() == 1 && after->front().exit().reason() == "Completed");
}

void ReadTrace(absl::string_view bytes) {
  const Folder& folder = Folder::Get();
  std::filesystem::create_directory(folder.Path("run"));
  const size_t program = bytes.size() / 2;
  folder.Write("run/trace-program.bin", bytes.substr(0, program));
  folder.Write("run/trace.bin", bytes.substr(program));
  for (const int64_t first : {0, 2}) {
    auto reader = stretto::TraceReader::Open(folder.Path("run"), first, 0);
    while (reader.ok()) {
      const auto record = reader->Next();
      if (!record.ok() || !record->has_value()) break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes = stretto::fuzz::TextOf(data, size);
  for (const std::string& file : {std::string(bytes), Framed(bytes)}) {
    ReadReports(file);
    ReadTrace(file);
  }
  const std::string page = Folder::Get().Write("flight.bin", bytes);
  const auto state = stretto::ReadFlightRecord(page);
  if (state.ok()) stretto::NameOf(state->phase);
  stretto::OperationLine(page, 18).status().IgnoreError();
  return 0;
}
