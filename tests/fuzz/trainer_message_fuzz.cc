// SPDX-License-Identifier: Apache-2.0

// What a trainer writes on its stream or into its log: whatever it is, its daemon sends reports of
// that rank alone, in order, which a coordinator admits, and its metrics are of that job alone. An
// input is a list of messages, each after two bytes with its length, lower one first.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "proto/bounds/worker_bounds.h"
#include "proto/reporting/dropped_reports.h"
#include "stretto/v1alpha1/trainer.pb.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/daemon/metrics.h"
#include "worker/daemon/session/report_table.h"

namespace {

using stretto::daemon::KeyOf;
using stretto::daemon::Metrics;
using stretto::daemon::RankKey;
using stretto::daemon::ReportTable;
using stretto::v1alpha1::RankReport;
using stretto::v1alpha1::WorkerMessage;

const RankKey kKey{"0123456789abcdef0123456789abcdef", 1, 0};

// Of every series of a rank.
void ExpectOwnSeries(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    STRETTO_CHECK(line.find("job=\"") == absl::string_view::npos ||
                  line.find("job=\"gpt\"") != absl::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static stretto::FakeClock clock(absl::FromUnixSeconds(1'800'000'000));
  Metrics metrics({.worker = "node"}, clock);
  ReportTable table([&](const RankReport& report) { metrics.Record(report); });
  table.Add(kKey, "gpt", 0, "reports.log");
  int64_t sequence = 0;
  for (absl::string_view bytes : stretto::fuzz::MessagesOf(stretto::fuzz::TextOf(data, size))) {
    stretto::v1alpha1::TrainerMessage message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    RankReport report = message.report();
    if (report.sequence() != sequence + 1 || report.has_dropped()) {
      // Of a log, whose reader gives numbers without gaps.
      if (report.has_dropped())
        report.mutable_dropped()->set_reports(report.dropped().reports() & 7);
      report.set_sequence(sequence + 1 + report.dropped().reports());
      table.Logged(kKey, {report});
    } else if (table.Live(report) == ReportTable::Arrival::kIgnored) {
      continue;  // the stream of another rank
    }
    sequence = report.sequence();
  }
  table.End(kKey, /*stopped=*/false);
  for (int64_t sent = 0; sent < sequence;) {
    ReportTable::Turn turn = table.Next({{kKey, sent + 1}});
    STRETTO_CHECK(turn.report.has_value() && KeyOf(*turn.report) == kKey);
    STRETTO_CHECK(stretto::CheckNumbers(*turn.report).ok() && turn.report->job_id() == "gpt");
    STRETTO_CHECK(stretto::FirstNumber(*turn.report) == sent + 1);
    sent = turn.report->sequence();
    WorkerMessage fitted;
    *fitted.mutable_report() = *std::move(turn.report);
    stretto::FitWorkerMessage(&fitted).IgnoreError();
    const absl::Status admitted = stretto::AdmitWorkerMessage(&fitted);
    STRETTO_CHECK(admitted.ok());
  }
  ExpectOwnSeries(metrics.Text());
  return 0;
}
