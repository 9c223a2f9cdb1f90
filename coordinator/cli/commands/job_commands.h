// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job ...`. Each function is one command: it prints and returns the exit code.

#include <cstdint>
#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

ExitCode GetJob(const Invocation& invocation, const std::string& name);
ExitCode DescribeJobCommand(const Invocation& invocation, const std::string& name);
ExitCode CancelJob(const Invocation& invocation, const std::string& name);
// With `wait`, waits until the checkpoint is written and prints its name.
ExitCode CheckpointJob(const Invocation& invocation, const std::string& name, bool wait);
ExitCode SuspendJob(const Invocation& invocation, const std::string& name);
// With `steps` > 0 the job then ends after as many; there must be more than before.
ExitCode ResumeJob(const Invocation& invocation, const std::string& name, int64_t steps);
ExitCode DeleteJob(const Invocation& invocation, const std::string& name);

}  // namespace stretto::cli
