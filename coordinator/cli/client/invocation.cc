// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/client/invocation.h"

#include "absl/strings/str_cat.h"
#include "coordinator/cli/client/names.h"
#include "coordinator/cli/yaml/message_text.h"
#include "proto/base/nearest_name.h"
#include "proto/base/printable.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

// Returns the innermost cause in a gRPC message, which wraps it in several layers.
std::string Cause(const absl::Status& status) {
  const absl::string_view message = status.message();
  constexpr absl::string_view kMarker = "Failed to connect to remote host: ";
  const size_t marker = message.rfind(kMarker);
  return std::string(marker == absl::string_view::npos ? message
                                                       : message.substr(marker + kMarker.size()));
}

// Explains an error on the way, which no coordinator could explain.
std::string TransportError(const Invocation& invocation, const absl::Status& status) {
  const std::string where = absl::StrCat("the coordinator at ", invocation.client.address());
  if (invocation.interrupt.raised()) return "interrupted";
  if (status.code() == absl::StatusCode::kUnavailable) {
    const std::string tls = invocation.client.ExplainFailure();
    if (!tls.empty()) return absl::StrCat("cannot talk to ", where, ": ", tls);
    return absl::StrCat("cannot reach ", where, ": ", Cause(status),
                        "\nIs it running? `stretto up` starts a local cluster; --coordinator or "
                        "STRETTO_COORDINATOR selects another one.");
  }
  if (status.code() == absl::StatusCode::kDeadlineExceeded) {
    return absl::StrCat("no answer from ", where, " within ",
                        stretto::FormatDuration(Client::kCallDeadline));
  }
  return absl::StrCat(status.message());
}

// Returns the nearest name to one that the coordinator does not know; empty if there is none.
std::string NearestKnown(const Invocation& invocation, const absl::Status& status) {
  constexpr int kLooked = 1000;
  const std::string reason = ErrorReason(status);
  if (reason == "JOB_NOT_FOUND")
    return NearestName(ErrorDetail(status, "job"), JobNames(invocation.client, kLooked));
  if (reason == "WORKER_NOT_FOUND")
    return NearestName(ErrorDetail(status, "worker"), WorkerNames(invocation.client, kLooked));
  return "";
}

}  // namespace

std::string Hint(const Invocation& invocation, absl::string_view arguments) {
  return absl::StrCat("stretto ", arguments, invocation.hint_flags);
}

ExitCode ReportError(const Invocation& invocation, const absl::Status& status,
                     const JobFile* job_file) {
  std::ostream& err = invocation.terminal.err;
  const std::vector<FieldViolation> violations = FieldViolations(status);
  for (const FieldViolation& violation : violations) {
    const std::string place =
        job_file == nullptr ? "" : absl::StrCat(Locate(*job_file, violation.field), ": ");
    err << "error: " << Printable(absl::StrCat(place, violation.field, ": ", violation.description))
        << "\n";
  }
  if (!violations.empty()) return kError;
  const std::string text = ErrorReason(status).empty() ? TransportError(invocation, status)
                                                       : std::string(status.message());
  const std::string near = NearestKnown(invocation, status);
  err << "error: " << Printable(text)
      << (near.empty() ? "" : absl::StrCat("; did you mean \"", near, "\"?")) << "\n";
  return kError;
}

void PrintMessage(const Invocation& invocation, const google::protobuf::Message& message) {
  PrintDocument(invocation, ToDocument(message));
}

void PrintDocument(const Invocation& invocation, const Document& document) {
  invocation.terminal.out << TextOf(document, invocation.format);
}

void PrintEvent(const Invocation& invocation, const google::protobuf::Message& message) {
  invocation.terminal.out << StreamText(ToDocument(message), invocation.format) << std::flush;
}

}  // namespace stretto::cli
