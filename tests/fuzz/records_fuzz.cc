// SPDX-License-Identifier: Apache-2.0

// Files of framed records: any bytes as a report log and as a trace are read to their end, damage
// and torn records included. A log that is opened again can be appended to, and the record is read.
// The same bytes as the page of a trainer's position, and as the text of a program. What a trainer
// writes of its position, and of steps, is read.
//
// A checksum guards a record, so an input is also taken for messages, each after two bytes with its
// length, which are framed here; bytes that are no whole message come behind them as they are.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/reporting/dropped_reports.h"
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
    STRETTO_CHECK(stretto::FirstNumber(report) == last + 1);
    last = report.sequence();
  }
  stretto::ReportReader follows(path);  // from before the log is shortened
  STRETTO_CHECK(follows.ReadNew(1).ok());
  auto log = stretto::ReportLog::Open(path, /*max_bytes=*/64);
  if (!log.ok()) return;
  stretto::v1alpha1::RankReport report;
  report.mutable_exit()->set_reason("Completed");
  if (log->last_sequence() >= stretto::kMaxTrainerNumber) return;
  STRETTO_CHECK(log->Append(&report).ok() && log->Sync().ok());
  const auto after = stretto::ReadAfter(path, report.sequence() - 1);
  STRETTO_CHECK(after.ok() && after->size() == 1 && after->front().exit().reason() == "Completed");
  while (true) {
    const auto more = follows.ReadNew();
    STRETTO_CHECK(more.ok());
    if (more->empty()) break;
  }
  STRETTO_CHECK(follows.last_sequence() == report.sequence());
}

void ReadTrace(absl::string_view bytes) {
  const Folder& folder = Folder::Get();
  std::filesystem::create_directory(folder.Path("run"));
  const size_t program = bytes.size() / 2;
  folder.Write("run/trace-program.bin", bytes.substr(0, program));
  folder.Write("run/trace.bin", bytes.substr(program));
  for (const auto& [first, last] : {std::pair{0, 0}, {2, 0}, {2, 2}, {3, 4}}) {
    auto reader = stretto::TraceReader::Open(folder.Path("run"), first, last);
    while (reader.ok()) {
      const auto record = reader->Next();
      if (!record.ok() || !record->has_value()) break;
    }
  }
}

void WriteTrace(absl::string_view bytes) {
  const std::string folder = Folder::Get().Path("written");
  std::filesystem::create_directory(folder);
  stretto::v1alpha1::TraceRecord program, step;
  program.mutable_program()->set_operation_count(0);
  auto log = *stretto::TraceLog::Create(folder, {program}, /*max_bytes=*/256);
  for (size_t i = 0; i < bytes.size() && i < 16; ++i) {
    step.mutable_step()->set_step(1 + static_cast<int64_t>(i));
    step.mutable_step()->mutable_report()->set_tokens(static_cast<unsigned char>(bytes[i]));
    log.Add(step);
    STRETTO_CHECK(log.Commit().ok());
  }
  auto reader = *stretto::TraceReader::Open(folder, 0, 0);
  while (true) {
    const auto record = reader.Next();
    STRETTO_CHECK(record.ok() || bytes.empty());
    if (!record.ok() || !record->has_value()) return;
    STRETTO_CHECK((*record)->has_program() || (*record)->has_step());
  }
}

stretto::FlightPhase PhaseOf(char c) {
  constexpr int kPhases = static_cast<int>(stretto::FlightPhase::kEvaluation) + 1;
  return static_cast<stretto::FlightPhase>(static_cast<unsigned char>(c) / 8 % kPhases);
}

// Each byte is something that the trainer does.
void WritePosition(absl::string_view bytes) {
  const std::string path = Folder::Get().Path("written.bin");
  auto recorder = *stretto::FlightRecorder::Create(path);
  int64_t time = 0;
  int channel = recorder.AddChannel("tp");
  auto phase = stretto::FlightPhase::kStarting;
  for (const char c : bytes.substr(0, 64)) {
    const absl::Duration now = absl::Nanoseconds(++time);
    switch (c % 8) {
      case 0:
        recorder.SetStep(time, now);
        break;
      case 1:
        recorder.SetPhase(phase = PhaseOf(c), now);
        break;
      case 2:
        recorder.SetOperation(stretto::FlightLane::kComm, time, now);
        break;
      case 3:
        channel = recorder.AddChannel(bytes);
        break;
      case 4:
        recorder.BeginCall(channel, now);
        break;
      case 5:
        recorder.AwaitPeer(channel, c, c > 'a', now);
        break;
      case 6:
        recorder.EndCall(channel, now);
        recorder.SetPolling(channel, c > 'a');
        break;
      default:  // 7 and negative ones
        recorder.Pulse(now, now);
        recorder.Announce(now);
    }
  }
  const auto state = stretto::ReadFlightRecord(path);
  STRETTO_CHECK(state.ok() && state->last_update <= absl::Nanoseconds(time));
  STRETTO_CHECK(state->phase == phase && std::string(stretto::NameOf(state->phase)) != "?");
  STRETTO_CHECK(state->channels.size() >= 1 && state->channels[0].group == "tp");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes = stretto::fuzz::TextOf(data, size);
  for (const std::string& file : {std::string(bytes), Framed(bytes)}) {
    ReadReports(file);
    ReadTrace(file);
  }
  WriteTrace(bytes);
  WritePosition(bytes);
  const std::string page = Folder::Get().Write("flight.bin", bytes);
  const auto state = stretto::ReadFlightRecord(page);
  if (state.ok()) stretto::NameOf(state->phase);
  stretto::OperationLine(page, 18).status().IgnoreError();
  return 0;
}
