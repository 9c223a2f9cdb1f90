// SPDX-License-Identifier: Apache-2.0
#pragma once
// One run of a command that talks to the coordinator.

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/interrupt.h"
#include "coordinator/cli/base/terminal.h"
#include "coordinator/cli/client/client.h"
#include "coordinator/cli/yaml/spec_yaml.h"
#include "google/protobuf/message.h"
#include "proto/document/document.h"

namespace stretto::cli {

// All borrowed.
struct Invocation {
  Client& client;
  Interrupt& interrupt;
  Terminal& terminal;
  OutputFormat format = OutputFormat::kTable;
  std::string hint_flags = {};  // " --coordinator HOST:PORT", " --context NAME" as given
  // How long to retry a lost coordinator, and the pause between two attempts.
  absl::Duration give_up = absl::Seconds(60);
  absl::Duration retry_interval = absl::Milliseconds(500);
  absl::Duration refresh = absl::Seconds(2);  // between two looks at what no stream reports
};

// Returns "stretto ARGUMENTS" with the flags that the user gave, ready to be typed.
std::string Hint(const Invocation& invocation, absl::string_view arguments);

// Prints the error for a person and returns its exit code. Fields at fault are shown with their
// line in `job_file`, which may be null.
ExitCode ReportError(const Invocation& invocation, const absl::Status& status,
                     const JobFile* job_file = nullptr);

// Prints an answer as JSON or YAML; the format must not be kTable.
void PrintMessage(const Invocation& invocation, const google::protobuf::Message& message);
void PrintDocument(const Invocation& invocation, const Document& document);
// Prints one of a stream of answers at once; the format must not be kTable.
void PrintEvent(const Invocation& invocation, const google::protobuf::Message& message);

}  // namespace stretto::cli
