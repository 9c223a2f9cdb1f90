#pragma once
// `stretto job ...`. Each function is one command: it prints, and returns the exit code.

#include <string>

#include "coordinator/cli/client/session.h"

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
ExitCode SubmitJob(const Session& session, const SubmitOptions& options);

// `limit` 0: all.
ExitCode ListJobs(const Session& session, int limit);
ExitCode GetJob(const Session& session, const std::string& name);
ExitCode DescribeJobCommand(const Session& session, const std::string& name);
ExitCode CancelJob(const Session& session, const std::string& name);

// kScreen needs a terminal, else it is kLines.
enum class FollowStyle { kQuiet, kLines, kScreen };

// Follows to the end and ends with a summary. kQuiet: only the summary. In JSON and YAML: every
// event as one line or document; with kQuiet, the job as it ended.
ExitCode WatchJob(const Session& session, const std::string& name, FollowStyle style);

// `rank` < 0: all ranks, each line preceded by its rank.
ExitCode JobLogs(const Session& session, const std::string& name, int rank, bool follow);

// Draws the losses so far.
ExitCode JobCurve(const Session& session, const std::string& name, int height);

}  // namespace stretto::cli
