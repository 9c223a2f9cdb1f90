// SPDX-License-Identifier: Apache-2.0

// Streams recorded steps through the assembler, which checks them, into a writer: a Chrome trace is
// written to a file as it arrives; a timeline is collected and then drawn.

#include "coordinator/cli/commands/trace_commands.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/commands/step_range.h"
#include "coordinator/cli/screen/ledger_bar.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "coordinator/cli/trace/chrome_trace.h"
#include "coordinator/cli/trace/plain_step.h"
#include "coordinator/cli/trace/records.h"
#include "coordinator/cli/trace/timeline.h"
#include "coordinator/cli/trace/timeline_svg.h"
#include "coordinator/cli/trace/timeline_text.h"
#include "proto/base/files.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;
using v1alpha1::TraceProgram;
using v1alpha1::TraceStep;

constexpr int64_t kNewest = 10;

absl::StatusOr<StepRange> StepsOfTrace(const std::string& text, int64_t finished) {
  if (text.empty()) return StepRange{std::max<int64_t>(finished - kNewest + 1, 0), finished};
  return ParseSteps(text);
}

// Streams the steps. Warnings go to stderr unless the handlers take them.
absl::Status Fetch(const Invocation& invocation, const v1alpha1::Job& job, StepRange steps,
                   int rank, TraceAssembler::Handlers handlers) {
  if (handlers.on_warning == nullptr) {
    handlers.on_warning = [&invocation](const std::string& text) {
      invocation.terminal.err << "warning: " << Printable(text) << "\n";
    };
  }
  v1alpha1::StreamJobTraceRequest request;
  request.set_name(job.name());
  if (rank >= 0) request.set_rank(rank);
  request.set_first_step(steps.first);
  request.set_last_step(steps.last);
  TraceAssembler assembler(std::move(handlers));
  absl::Status wrong;
  RETURN_IF_ERROR(invocation.client.StreamJobTrace(request, [&](const auto& response) {
    wrong = assembler.Add(response);
    return wrong.ok();
  }));
  assembler.Finish();
  return wrong;
}

// Returns the newest plain step, or the newest if none can be read: whoever reads that says why.
int64_t ChooseStep(const Invocation& invocation, const v1alpha1::Job& job, int rank) {
  const int64_t finished = job.progress().steps();
  PlainStep plain;
  Fetch(invocation, job, {std::max<int64_t>(finished - kPlainStepChoice + 1, 1), finished}, rank,
        {.on_program = [](int, const TraceProgram&) {},
         .on_step = [&](int, const TraceProgram&, const TraceStep& step) { plain.Add(step); },
         .on_warning = [](const std::string&) {}})
      .IgnoreError();
  return plain.step() > 0 ? plain.step() : finished;
}

absl::StatusOr<v1alpha1::Job> FindJob(const Invocation& invocation, const std::string& name) {
  v1alpha1::GetJobRequest request;
  request.set_name(ResourceName("jobs", name));
  return invocation.client.GetJob(request);
}

struct Written {
  int64_t steps = 0, operations = 0;
  int ranks = 0;
};

absl::StatusOr<Written> WriteTrace(const Invocation& invocation, const v1alpha1::Job& job,
                                   StepRange steps, int rank, std::ostream& out) {
  ChromeTraceWriter writer(out);
  // The job's creation is the origin, because no event of it is earlier.
  TimeAxis axis(absl::ToUnixNanos(ToTime(job.create_time())));
  Written written;
  int64_t steps_of_rank = 0;
  const absl::Status status =
      Fetch(invocation, job, steps, rank,
            {.on_program =
                 [&](int number, const TraceProgram& program) {
                   writer.StartRank(number, program);
                   ++written.ranks;
                   steps_of_rank = 0;
                 },
             .on_step =
                 [&](int number, const TraceProgram& program, const TraceStep& step) {
                   writer.AddStep(program, step, axis.BeginOf(number, program, step));
                   written.steps = std::max(written.steps, ++steps_of_rank);
                 },
             .on_warning = {}});
  RETURN_IF_ERROR(status);
  writer.Finish(job, axis.machines());
  out.flush();
  written.operations = writer.operations();
  return written;
}

ExitCode Fail(const Invocation& invocation, const std::string& text) {
  invocation.terminal.err << "error: " << Printable(text) << "\n";
  return kError;
}

std::string LedgerRows(const Timeline& timeline) {
  std::vector<std::pair<Ledger::Part, const char*>> parts = {
      {Ledger::COMPUTE_HIDING, ">hiding"}, {Ledger::COMPUTE_ALONE, ">alone"},
      {Ledger::EXPOSED, ">exposed"},       {Ledger::DATA_WAIT, ">data"},
      {Ledger::CHECKPOINT_WAIT, ">ckpt"},  {Ledger::IDLE, ">idle"}};
  const auto has = [&](Ledger::Part part) {
    return absl::c_any_of(timeline.ranks,
                          [&](const TimelineRank& rank) { return ShareOf(rank.ledger, part) > 0; });
  };
  if (has(Ledger::EVALUATION)) parts.push_back({Ledger::EVALUATION, ">eval"});
  if (has(Ledger::PIPELINE_WAIT)) parts.push_back({Ledger::PIPELINE_WAIT, ">pipeline"});
  std::vector<std::string> headings = {"ms"};
  for (const auto& [part, heading] : parts) headings.emplace_back(heading);
  headings.insert(headings.end(), {">total", ">overlap"});
  std::vector<std::vector<std::string>> rows;
  for (const TimelineRank& rank : timeline.ranks) {
    std::vector<std::string> row = {absl::StrCat("rank ", rank.rank)};
    double total = 0;
    for (const auto& [part, heading] : parts) {
      double seconds = 0;
      for (const Ledger::Entry& entry : rank.ledger.entries()) {
        if (entry.part() == part) seconds += entry.seconds();
      }
      row.push_back(absl::StrFormat("%.2f", seconds * 1e3));
      total += seconds;
    }
    row.push_back(absl::StrFormat("%.2f", total * 1e3));
    row.push_back(Percent(OverlapRatio(rank.ledger)));
    rows.push_back(row);
  }
  return Table(headings, rows);
}

}  // namespace

ExitCode JobTrace(const Invocation& invocation, const TraceOptions& options) {
  const absl::StatusOr<v1alpha1::Job> job = FindJob(invocation, options.name);
  if (!job.ok()) return ReportError(invocation, job.status());
  const absl::StatusOr<StepRange> steps = StepsOfTrace(options.steps, job->progress().steps());
  if (!steps.ok()) return Fail(invocation, std::string(steps.status().message()));
  const std::string file = options.file.empty()
                               ? absl::StrCat(ShortResourceName(job->name()), "-trace.json")
                               : options.file;
  if (file == "-") {
    const auto written =
        WriteTrace(invocation, *job, *steps, options.rank, invocation.terminal.out);
    if (!written.ok()) return ReportError(invocation, written.status());
    return invocation.terminal.out ? kOk : Fail(invocation, "cannot write to standard output");
  }
  const std::string partial = file + ".part";
  std::ofstream out(partial, std::ios::trunc);
  if (!out) return Fail(invocation, absl::StrCat("cannot write ", partial));
  const auto written = WriteTrace(invocation, *job, *steps, options.rank, out);
  const int64_t bytes = out.tellp();
  out.close();
  if (!written.ok() || !out || std::rename(partial.c_str(), file.c_str()) != 0) {
    std::remove(partial.c_str());
    return written.ok() ? Fail(invocation, absl::StrCat("cannot write ", file))
                        : ReportError(invocation, written.status());
  }
  invocation.terminal.err << "wrote " << file << ": " << written->steps
                          << (written->steps == 1 ? " step of " : " steps of ") << written->ranks
                          << (written->ranks == 1 ? " rank, " : " ranks, ") << written->operations
                          << " operations, " << FormatBytes(bytes)
                          << "\nOpen it at https://ui.perfetto.dev\n";
  return kOk;
}

ExitCode JobTimeline(const Invocation& invocation, const TraceOptions& options) {
  const absl::StatusOr<v1alpha1::Job> job = FindJob(invocation, options.name);
  if (!job.ok()) return ReportError(invocation, job.status());
  const int64_t finished = job->progress().steps();
  if (options.step == 0 && finished == 0) {
    return Fail(invocation, absl::StrCat("job ", ShortResourceName(job->name()),
                                         ": found no finished step, expected one"));
  }
  const int64_t step =
      options.step > 0 ? options.step : ChooseStep(invocation, *job, std::max(options.rank, 0));
  TimeAxis axis(absl::ToUnixNanos(ToTime(job->create_time())));
  TimelineBuilder builder;
  std::vector<v1alpha1::StepReport> reports;
  const absl::Status status =
      Fetch(invocation, *job, {step, step}, options.rank,
            {.on_program = [](int, const TraceProgram&) {},
             .on_step =
                 [&](int rank, const TraceProgram& program, const TraceStep& recorded) {
                   builder.Add(rank, program, recorded, axis.BeginOf(rank, program, recorded));
                   reports.push_back(recorded.report());
                 },
             .on_warning = {}});
  if (!status.ok()) return ReportError(invocation, status);
  if (builder.empty()) return Fail(invocation, absl::StrCat("no rank has step ", step, " whole"));
  const Timeline timeline = builder.Build(*job, axis.machines());
  if (!options.svg.empty()) {
    const absl::Status written = WriteFileAtomic(options.svg, DrawTimelineSvg(timeline));
    if (!written.ok()) return Fail(invocation, std::string(written.message()));
    invocation.terminal.err << "wrote " << options.svg << "\n";
  }
  std::ostream& out = invocation.terminal.out;
  if (invocation.format != OutputFormat::kTable) {
    for (const v1alpha1::StepReport& report : reports) PrintEvent(invocation, report);
    return kOk;
  }
  const TimelineStyle style{.width = invocation.terminal.width,
                            .unicode = invocation.terminal.unicode,
                            .color = invocation.terminal.color};
  for (const std::string& line : DrawTimeline(timeline, style)) out << line << "\n";
  out << "\n" << LedgerRows(timeline);
  return kOk;
}

}  // namespace stretto::cli
