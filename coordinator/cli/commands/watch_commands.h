// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands that follow a job: watch, logs, curve. Each prints, and returns the exit code.

#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

// kScreen needs a terminal, else it is kLines.
enum class FollowStyle { kQuiet, kLines, kScreen };

// Follows to the end and ends with a summary. kQuiet: only the summary. In JSON and YAML: every
// event as one line or document; with kQuiet, the job as it ended.
ExitCode WatchJob(const Invocation& invocation, const std::string& name, FollowStyle style);

// `rank` < 0: all ranks, each line preceded by its rank.
ExitCode JobLogs(const Invocation& invocation, const std::string& name, int rank, bool follow);

// Draws the losses so far.
ExitCode JobCurve(const Invocation& invocation, const std::string& name, int height);

}  // namespace stretto::cli
