// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job submit` and `stretto job clone`: a new job, from a file or from another job.

#include <string>
#include <vector>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

struct SubmitOptions {
  std::string name;              // of the new job; empty: the file's, or one made from its origin's
  std::vector<std::string> set;  // PATH=VALUE, as SetFields takes them
  std::string request_id;        // empty: a fresh one
  bool follow = false;
  bool wait = false;
  bool dry_run = false;
  bool no_look = false;  // create the job without the checks of a dry run
  std::string planner;   // path of stretto-planner
};

// Submits the job in `file`; "-" reads standard input.
ExitCode SubmitJob(const Invocation& invocation, const std::string& file,
                   const SubmitOptions& options);

// Submits the spec of job `origin` again. What had its default there has the default again, so it
// follows what `set` changes. Without a name the new job is ORIGIN-2, or the next one that is free.
ExitCode CloneJob(const Invocation& invocation, const std::string& origin,
                  const SubmitOptions& options);

// Returns the name after `name`: "gpt-2" after "gpt", "gpt-10" after "gpt-9". It has at most 63
// characters. Pure.
std::string NextName(const std::string& name);

}  // namespace stretto::cli
