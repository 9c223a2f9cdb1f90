// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job ...`. Each function is one command: it prints and returns the exit code.

#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

struct SubmitOptions {
  std::string file;        // "-" reads standard input
  std::string name;        // overrides the file's
  std::string request_id;  // empty: a fresh one
  bool follow = false;
  bool wait = false;
  bool dry_run = false;
  std::string planner;  // path of stretto-planner, for dry_run
};
ExitCode SubmitJob(const Invocation& invocation, const SubmitOptions& options);

ExitCode GetJob(const Invocation& invocation, const std::string& name);
ExitCode DescribeJobCommand(const Invocation& invocation, const std::string& name);
ExitCode CancelJob(const Invocation& invocation, const std::string& name);
// With `wait`, waits until the checkpoint is written and prints its name.
ExitCode CheckpointJob(const Invocation& invocation, const std::string& name, bool wait);
ExitCode SuspendJob(const Invocation& invocation, const std::string& name);
ExitCode ResumeJob(const Invocation& invocation, const std::string& name);
ExitCode DeleteJob(const Invocation& invocation, const std::string& name);

}  // namespace stretto::cli
