// SPDX-License-Identifier: Apache-2.0

// Reads messages of the API, leaves out what the page does not show, and prints the rest. The
// timeline is assembled and drawn by the code of `stretto job timeline`.

#include "coordinator/page/answers.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "coordinator/cli/trace/palette.h"
#include "coordinator/cli/trace/plain_step.h"
#include "coordinator/cli/trace/records.h"
#include "coordinator/cli/trace/timeline.h"
#include "coordinator/cli/trace/timeline_svg.h"
#include "coordinator/page/page.h"
#include "coordinator/service/convert.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace stretto::page {
namespace {

using service::Reader;
using service::TraceRecords;

absl::StatusOr<std::string> Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (status.ok()) return text;
  return absl::InternalError(absl::StrCat("cannot print a message: ", status.ToString()));
}

// "[{...},{...}]"
absl::StatusOr<std::string> JsonList(const std::vector<v1alpha1::StepReport>& steps) {
  std::string text = "[";
  const char* comma = "";
  for (const v1alpha1::StepReport& step : steps) {
    ASSIGN_OR_RETURN(const std::string one, Json(step));
    absl::StrAppend(&text, comma, one);
    comma = ",";
  }
  return absl::StrCat(text, "]");
}

v1alpha1::GetJobRequest Named(const std::string& name) {
  v1alpha1::GetJobRequest request;
  request.set_name(name);
  return request;
}

template <class List>
void Cut(int64_t most, List* list) {
  if (list->size() <= most) return;
  list->DeleteSubrange(static_cast<int>(most), list->size() - static_cast<int>(most));
}

// Gives the steps among `records` to `on_step`, whole and checked.
absl::Status Assemble(const TraceRecords& records,
                      const std::function<void(int, const v1alpha1::TraceProgram&,
                                               const v1alpha1::TraceStep&)>& on_step) {
  cli::TraceAssembler assembler({.on_program = [](int, const v1alpha1::TraceProgram&) {},
                                 .on_step = on_step,
                                 .on_warning = [](const std::string&) {}});
  for (const v1alpha1::StreamJobTraceResponse& record : records) {
    RETURN_IF_ERROR(assembler.Add(record));
  }
  assembler.Finish();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ChooseStep(Reader& reader, const std::string& name, int64_t finished) {
  if (finished == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": found no finished step, expected one"));
  }
  ASSIGN_OR_RETURN(
      const TraceRecords records,
      reader.Trace({.name = name,
                    .first_step = std::max<int64_t>(finished - cli::kPlainStepChoice + 1, 1),
                    .last_step = finished}));
  cli::PlainStep plain;
  RETURN_IF_ERROR(Assemble(records, [&](int, const auto&, const auto& step) { plain.Add(step); }));
  return plain.step() > 0 ? plain.step() : finished;
}

}  // namespace

absl::StatusOr<std::string> JobsJson(Reader& reader, const std::string& token) {
  v1alpha1::ListJobsRequest request;
  request.set_page_token(token);
  ASSIGN_OR_RETURN(v1alpha1::ListJobsResponse jobs, reader.ListJobs(request));
  for (v1alpha1::Job& job : *jobs.mutable_jobs()) {
    job.clear_placement();
    job.clear_attempts();
    if (job.has_progress()) job.mutable_progress()->clear_rank_ledgers();
  }
  return Json(jobs);
}

absl::StatusOr<std::string> WorkersJson(Reader& reader, const std::string& token) {
  v1alpha1::ListWorkersRequest request;
  request.set_page_token(token);
  ASSIGN_OR_RETURN(const v1alpha1::ListWorkersResponse workers, reader.ListWorkers(request));
  return Json(workers);
}

absl::StatusOr<std::string> JobJson(Reader& reader, const std::string& name) {
  ASSIGN_OR_RETURN(v1alpha1::Job job, reader.GetJob(Named(name)));
  const int ranks = job.placement_size();
  Cut(limits::kPageRanks.value, job.mutable_placement());
  if (job.has_progress()) {
    Cut(limits::kPageRanks.value, job.mutable_progress()->mutable_rank_ledgers());
  }
  ASSIGN_OR_RETURN(const std::string text, Json(job));
  return absl::StrCat("{\"ranks\":", ranks, ",\"job\":", text, "}");
}

absl::StatusOr<std::string> EventsJson(Reader& reader, const std::string& name) {
  v1alpha1::ListJobEventsRequest request;
  request.set_name(name);
  ASSIGN_OR_RETURN(const v1alpha1::ListJobEventsResponse events, reader.ListJobEvents(request));
  return Json(events);
}

absl::StatusOr<std::string> StepsJson(Reader& reader, const std::string& name) {
  ASSIGN_OR_RETURN(const service::JobSteps steps, reader.Steps(Named(name)));
  ASSIGN_OR_RETURN(const std::string curve, JsonList(steps.curve));
  ASSIGN_OR_RETURN(const std::string newest, JsonList(steps.newest));
  return absl::StrCat("{\"curve\":", curve, ",\"newest\":", newest, "}");
}

absl::StatusOr<std::string> TimelineSvg(Reader& reader, const std::string& name, int64_t step) {
  ASSIGN_OR_RETURN(const v1alpha1::Job job, reader.GetJob(Named(name)));
  if (step == 0) {
    ASSIGN_OR_RETURN(step, ChooseStep(reader, name, job.progress().steps()));
  }
  ASSIGN_OR_RETURN(
      const TraceRecords records,
      reader.Trace(
          {.name = name, .last_rank = kDrawnRanks - 1, .first_step = step, .last_step = step}));
  cli::TimeAxis axis(absl::ToUnixNanos(service::FromProto(job.create_time())));
  cli::TimelineBuilder builder;
  RETURN_IF_ERROR(Assemble(records, [&](int rank, const auto& program, const auto& recorded) {
    builder.Add(rank, program, recorded, axis.BeginOf(rank, program, recorded));
  }));
  if (builder.empty()) {
    return absl::NotFoundError(absl::StrCat(name, ": no rank has step ", step, " whole"));
  }
  return cli::DrawTimelineSvg(builder.Build(job, axis.machines()));
}

std::string PaletteCss() {
  std::string light, dark, classes;
  for (const cli::PaletteColor& color : cli::kPalette) {
    absl::StrAppend(&light, "  --", color.name, ": ", color.light, ";\n");
    absl::StrAppend(&dark, "    --", color.name, ": ", color.dark, ";\n");
    absl::StrAppend(&classes, ".c-", color.name, " { background-color: var(--", color.name,
                    "); fill: var(--", color.name, "); }\n.s-", color.name, " { stroke: var(--",
                    color.name, "); }\n");
  }
  return absl::StrCat(":root {\n  color-scheme: light dark;\n", light,
                      "}\n@media (prefers-color-scheme: dark) {\n  :root {\n", dark, "  }\n}\n",
                      classes);
}

}  // namespace stretto::page
