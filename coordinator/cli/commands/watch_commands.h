// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands that follow a job: watch, logs and curve. Each prints and returns the exit code.

#include <cstdint>
#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

// kScreen needs a terminal; without one it is kLines.
enum class FollowStyle { kQuiet, kLines, kScreen };

// Follows to the end of the job and then prints a summary. kQuiet prints only the summary. JSON and
// YAML have every event as one line or document, or with kQuiet only the job as it ended.
ExitCode WatchJob(const Invocation& invocation, const std::string& name, FollowStyle style);

struct LogOptions {
  std::string name;
  int rank = -1;  // < 0: of all, with the rank before each line
  bool follow = false;
  int64_t tail = -1;  // the newest lines of each rank; < 0: all
  std::string since;  // as ParsePast takes it; empty: all
  std::string grep;   // empty: all
};
ExitCode JobLogs(const Invocation& invocation, const LogOptions& options);

// Draws the losses so far.
ExitCode JobCurve(const Invocation& invocation, const std::string& name, int height);

}  // namespace stretto::cli
