// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job events`.

#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

// Prints the events of a job, and with `follow` also those that come, until the job has ended.
// Other formats than the table print one ListJobEventsResponse each time there are new ones.
ExitCode JobEvents(const Invocation& invocation, const std::string& name, bool follow);

}  // namespace stretto::cli
