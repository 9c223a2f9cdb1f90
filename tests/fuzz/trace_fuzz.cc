// SPDX-License-Identifier: Apache-2.0

// Recorded steps as a worker sends them, drawn by the client: any records give a trace for
// Perfetto, a timeline as text and as SVG, or an error. An input is a list of messages, each after
// two bytes with its length, lower one first.
#include <cstddef>
#include <cstdint>
#include <sstream>

#include "coordinator/cli/trace/anatomy.h"
#include "coordinator/cli/trace/chrome_trace.h"
#include "coordinator/cli/trace/records.h"
#include "coordinator/cli/trace/timeline.h"
#include "coordinator/cli/trace/timeline_svg.h"
#include "coordinator/cli/trace/timeline_text.h"
#include "nlohmann/json.hpp"
#include "proto/base/check.h"
#include "proto/base/printable.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace stretto::cli;  // NOLINT: all of this target is about it
using stretto::v1alpha1::StreamJobTraceResponse;
using stretto::v1alpha1::TraceProgram;
using stretto::v1alpha1::TraceStep;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::ostringstream file;
  ChromeTraceWriter writer(file);
  TimeAxis axis(0);
  TimelineBuilder builder;
  TraceAssembler assembler(
      {.on_program = [&](int rank,
                         const TraceProgram& program) { writer.StartRank(rank, program); },
       .on_step =
           [&](int rank, const TraceProgram& program, const TraceStep& step) {
             const int64_t begin = axis.BeginOf(rank, program, step);
             writer.AddStep(program, step, begin);
             builder.Add(rank, program, step, begin);
             LedgerOf(Anatomy(program, step));
           },
       .on_warning = [](const std::string&) {}});
  for (const absl::string_view message :
       stretto::fuzz::MessagesOf(stretto::fuzz::TextOf(data, size))) {
    StreamJobTraceResponse response;
    if (!response.ParseFromArray(message.data(), static_cast<int>(message.size()))) return 0;
    if (!assembler.Add(response).ok()) return 0;
  }
  assembler.Finish();
  stretto::v1alpha1::Job job;
  job.set_name("jobs/fuzz");
  writer.Finish(job, axis.machines());
  STRETTO_CHECK(nlohmann::json::accept(file.str()));
  if (builder.empty()) return 0;
  const Timeline timeline = builder.Build(job, axis.machines());
  for (const std::string& line : DrawTimeline(timeline, {.width = 80})) {
    STRETTO_CHECK(stretto::IsPrintable(line));
  }
  DrawTimelineSvg(timeline);
  return 0;
}
