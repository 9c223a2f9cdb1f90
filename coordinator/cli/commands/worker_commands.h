#pragma once
// `stretto worker ...`. Each function is one command: it prints, and returns the exit code.

#include <string>

#include "coordinator/cli/client/session.h"

namespace stretto::cli {

ExitCode ListWorkers(const Session& session);
ExitCode GetWorker(const Session& session, const std::string& name);

}  // namespace stretto::cli
