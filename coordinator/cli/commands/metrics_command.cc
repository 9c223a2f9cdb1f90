// SPDX-License-Identifier: Apache-2.0

// A table of columns, each with a name and a function from a step to its text. CSV and the document
// are two ways to walk it.

#include "coordinator/cli/commands/metrics_command.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/commands/step_range.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/resource_name.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;
using v1alpha1::StepReport;

struct Column {
  std::string name;
  std::function<std::optional<double>(const StepReport&)> value;
};

// Sums all phases of a part. Empty if the coordinator no longer has the step's ledger.
Column LedgerColumn(Ledger::Part part) {
  return {absl::StrCat(absl::AsciiStrToLower(Ledger::Part_Name(part)), "_seconds"),
          [part](const StepReport& step) -> std::optional<double> {
            if (step.ledger().entries_size() == 0) return std::nullopt;
            double seconds = 0;
            for (const Ledger::Entry& entry : step.ledger().entries()) {
              if (entry.part() == part) seconds += entry.seconds();
            }
            return seconds;
          }};
}

std::vector<Column> MakeColumns() {
  std::vector<Column> columns = {
      {"step", [](const StepReport& s) { return static_cast<double>(s.step()); }},
      {"loss", [](const StepReport& s) { return s.loss(); }},
      {"grad_norm", [](const StepReport& s) { return s.grad_norm(); }},
      {"learning_rate", [](const StepReport& s) { return s.learning_rate(); }},
      {"tokens", [](const StepReport& s) { return static_cast<double>(s.tokens()); }},
      {"wall_seconds", [](const StepReport& s) { return s.wall_seconds(); }}};
  for (Ledger::Part part :
       {Ledger::COMPUTE_HIDING, Ledger::COMPUTE_ALONE, Ledger::EXPOSED, Ledger::DATA_WAIT,
        Ledger::CHECKPOINT_WAIT, Ledger::EVALUATION, Ledger::IDLE, Ledger::PIPELINE_WAIT}) {
    columns.push_back(LedgerColumn(part));
  }
  columns.push_back({"overlap_ratio", [](const StepReport& s) -> std::optional<double> {
                       if (s.ledger().communication_seconds() <= 0) return std::nullopt;
                       return OverlapRatio(s.ledger());
                     }});
  columns.push_back({"held_out_loss", [](const StepReport& s) -> std::optional<double> {
                       if (!s.has_evaluation()) return std::nullopt;
                       return s.evaluation().loss();
                     }});
  columns.push_back({"held_out_perplexity", [](const StepReport& s) -> std::optional<double> {
                       if (!s.has_evaluation()) return std::nullopt;
                       return s.evaluation().perplexity();
                     }});
  columns.push_back({"preempted_seconds", [](const StepReport& s) -> std::optional<double> {
                       if (!s.ledger().has_preempted_seconds()) return std::nullopt;
                       return s.ledger().preempted_seconds();
                     }});
  return columns;
}

const std::vector<Column>& Columns() {
  static const std::vector<Column> columns = MakeColumns();
  return columns;
}

// Prints enough digits to distinguish any two values.
std::string Digits(double value) {
  for (int digits : {15, 16, 17}) {
    const std::string text = absl::StrFormat("%.*g", digits, value);
    double read = 0;
    if ((absl::SimpleAtod(text, &read) && read == value) || std::isnan(value)) return text;
  }
  return "";
}

absl::StatusOr<std::vector<StepReport>> StepsOf(const Invocation& invocation,
                                                const std::string& name, StepRange range) {
  v1alpha1::WatchJobRequest request;
  request.set_name(ResourceName("jobs", name));
  request.set_after_step(std::max<int64_t>(range.first - 1, 0));
  std::vector<StepReport> steps;
  int64_t last = -1;  // -1: not known yet
  RETURN_IF_ERROR(invocation.client.WatchJob(request, [&](const v1alpha1::WatchJobResponse& event) {
    if (event.has_job() && last < 0) {
      last = event.job().progress().steps();
      if (range.last > 0) last = std::min(last, range.last);
    }
    if (event.has_step() && event.step().step() <= last) steps.push_back(event.step());
    const int64_t reached = event.has_step() ? event.step().step() : request.after_step();
    return last < 0 || reached < last;
  }));
  return steps;
}

}  // namespace

std::string MetricsCsv(const std::vector<StepReport>& steps) {
  std::string out = absl::StrJoin(Columns(), ",", [](std::string* text, const Column& column) {
    absl::StrAppend(text, column.name);
  });
  out += "\n";
  for (const StepReport& step : steps) {
    const char* comma = "";
    for (const Column& column : Columns()) {
      const std::optional<double> value = column.value(step);
      absl::StrAppend(&out, comma, value.has_value() ? Digits(*value) : "");
      comma = ",";
    }
    out += "\n";
  }
  return out;
}

Document MetricsDocument(const std::vector<StepReport>& steps) {
  Document rows = Document::array();
  for (const StepReport& step : steps) {
    Document& row = rows.emplace_back(Document::object());
    for (const Column& column : Columns()) {
      const std::optional<double> value = column.value(step);
      const bool finite = value.has_value() && std::isfinite(*value);
      row[column.name] = finite ? Document(*value) : Document(nullptr);
    }
  }
  return rows;
}

ExitCode JobMetrics(const Invocation& invocation, const MetricsOptions& options) {
  const auto fail = [&](absl::string_view why) {
    invocation.terminal.err << "error: " << Printable(std::string(why)) << "\n";
    return kError;
  };
  StepRange range;
  if (!options.steps.empty()) {
    const absl::StatusOr<StepRange> parsed = ParseSteps(options.steps);
    if (!parsed.ok()) return fail(parsed.status().message());
    range = *parsed;
  }
  const absl::StatusOr<std::vector<StepReport>> steps = StepsOf(invocation, options.name, range);
  if (!steps.ok()) return ReportError(invocation, steps.status());
  const std::string text = invocation.format == OutputFormat::kTable
                               ? MetricsCsv(*steps)
                               : TextOf(MetricsDocument(*steps), invocation.format);
  if (options.file.empty() || options.file == "-") {
    invocation.terminal.out << text << std::flush;
    return invocation.terminal.out ? kOk : fail("cannot write to standard output");
  }
  const absl::Status written = WriteFileAtomic(options.file, text);
  if (!written.ok()) return fail(written.message());
  invocation.terminal.err << "wrote " << options.file << ": " << steps->size()
                          << (steps->size() == 1 ? " step\n" : " steps\n");
  return kOk;
}

}  // namespace stretto::cli
