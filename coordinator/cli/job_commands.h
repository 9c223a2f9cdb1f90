#pragma once
// `stretto job ...`. Each function is one command: it prints, and returns the exit code.

#include <string>

#include "coordinator/cli/session.h"

namespace stretto::cli {

struct SubmitOptions {
  std::string file;        // "-" reads standard input
  std::string name;        // overrides the file's
  std::string request_id;  // empty: a fresh one
  bool follow = false;
  bool wait = false;
  bool validate_only = false;
};
ExitCode SubmitJob(const Session& session, const SubmitOptions& options);

// `limit` 0: all.
ExitCode ListJobs(const Session& session, int limit);
ExitCode GetJob(const Session& session, const std::string& name);
ExitCode DescribeJobCommand(const Session& session, const std::string& name);
ExitCode CancelJob(const Session& session, const std::string& name);

// Follows to the end and ends with a summary. `quiet`: only the summary. In JSON and YAML: without
// `quiet`, every event as one line or document; with it, the job as it ended.
ExitCode WatchJob(const Session& session, const std::string& name, bool quiet);

// `rank` < 0: all ranks, each line preceded by its rank.
ExitCode JobLogs(const Session& session, const std::string& name, int rank, bool follow);

// Draws the losses so far.
ExitCode JobCurve(const Session& session, const std::string& name, int height);

}  // namespace stretto::cli
