// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands that follow a job: watch, logs and curve. Each prints and returns the exit code.

#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

// kScreen needs a terminal; without one it is kLines.
enum class FollowStyle { kQuiet, kLines, kScreen };

// Follows to the end of the job and then prints a summary. kQuiet prints only the summary. JSON and
// YAML have every event as one line or document, or with kQuiet only the job as it ended.
ExitCode WatchJob(const Invocation& invocation, const std::string& name, FollowStyle style);

// `rank` < 0 prints the logs of all ranks, with the rank before each line.
ExitCode JobLogs(const Invocation& invocation, const std::string& name, int rank, bool follow);

// Draws the losses so far.
ExitCode JobCurve(const Invocation& invocation, const std::string& name, int height);

}  // namespace stretto::cli
