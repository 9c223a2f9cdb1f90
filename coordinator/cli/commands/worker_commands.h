// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto worker ...`. Each function is one command: it prints and returns the exit code.

#include <string>

#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

// Returns the workers of all pages.
absl::StatusOr<v1alpha1::ListWorkersResponse> FetchWorkers(Client& client);

ExitCode ListWorkers(const Invocation& invocation);
ExitCode GetWorker(const Invocation& invocation, const std::string& name);
// With `drain`, also moves the jobs that run there.
ExitCode CordonWorker(const Invocation& invocation, const std::string& name,
                      const std::string& reason, bool drain);
ExitCode UncordonWorker(const Invocation& invocation, const std::string& name);
ExitCode ForgetWorker(const Invocation& invocation, const std::string& name);

}  // namespace stretto::cli
