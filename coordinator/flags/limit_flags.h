// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of stretto-coordinator that change a limit of proto/base/limits.h.

#include <CLI/CLI.hpp>

#include "coordinator/service/limits.h"

namespace stretto::service {

// Parsing writes to `limits`, which must live until then.
void AddLimitFlags(CLI::App& app, Limits& limits);

}  // namespace stretto::service
