// SPDX-License-Identifier: Apache-2.0

// Follows the job itself, and asks for new events whenever it has changed. That call is made while
// the stream of the job is open, so it has a client of its own.

#include "coordinator/cli/commands/event_commands.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/client/follow.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/table.h"
#include "coordinator/cli/text/times.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"

namespace stretto::cli {
namespace {

std::string EventRows(const v1alpha1::ListJobEventsResponse& events) {
  std::vector<std::vector<std::string>> rows;
  for (const v1alpha1::JobEvent& event : events.events()) {
    const std::string times = event.count() > 1 ? absl::StrCat(" (x", event.count(), ")") : "";
    rows.push_back({TimeText(event.time()), StateText(event.state(), false),
                    Printable(absl::StrCat(event.reason(), times)),
                    event.caller().empty() ? "-" : Printable(event.caller()),
                    FirstLine(Printable(event.message()))});
  }
  return Table({"TIME", "STATE", "REASON", "CALLER", "MESSAGE"}, rows);
}

// Prints the events after number `*last`, and advances it.
absl::Status PrintNew(const Invocation& invocation, Client& client, const std::string& name,
                      int64_t* last) {
  v1alpha1::ListJobEventsRequest request;
  request.set_name(name);
  request.set_after_number(*last);
  ASSIGN_OR_RETURN(const v1alpha1::ListJobEventsResponse events, client.ListJobEvents(request));
  if (events.events().empty()) return absl::OkStatus();
  const bool first = *last == 0;
  *last = events.events().rbegin()->number();
  if (invocation.format == OutputFormat::kTable) {
    const std::string rows = EventRows(events);
    const size_t heading = first ? 0 : rows.find('\n') + 1;
    invocation.terminal.out << rows.substr(heading) << std::flush;
  } else {
    PrintMessage(invocation, events);
  }
  return absl::OkStatus();
}

}  // namespace

ExitCode JobEvents(const Invocation& invocation, const std::string& name, bool follow) {
  const std::string job = ResourceName("jobs", name);
  int64_t last = 0;
  absl::Status status;
  if (!follow) {
    status = PrintNew(invocation, invocation.client, job, &last);
    return status.ok() ? kOk : ReportError(invocation, status);
  }
  Interrupt never;
  Client client(invocation.client, never);
  const auto result = FollowJob(
      invocation, job,
      {.on_job = [&](const v1alpha1::Job&) { status = PrintNew(invocation, client, job, &last); },
       .on_step = [](const v1alpha1::StepReport&) {},
       .on_notice = [&](const std::string& text) { invocation.terminal.err << text << "\n"; }});
  if (!result.ok()) return ReportError(invocation, result.status());
  // A connection that failed between two events came back, and the last look has all of them.
  if (!status.ok()) status = PrintNew(invocation, client, job, &last);
  return status.ok() ? kOk : ReportError(invocation, status);
}

}  // namespace stretto::cli
