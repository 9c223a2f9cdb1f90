// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto ca token ...`: tokens of users, made and revoked in a folder. Each function is one
// command; `now` is the time of the tokens. A token itself is never printed: it is in a file for
// its holder.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/terminal.h"

namespace stretto::cli {

ExitCode IssueTokens(const Terminal& terminal, const std::string& folder,
                     const std::vector<std::string>& users, int days, OutputFormat format,
                     absl::Time now);

ExitCode ListTokens(const Terminal& terminal, const std::string& folder, OutputFormat format,
                    absl::Time now);

// `what`: names and ids.
ExitCode RevokeTokens(const Terminal& terminal, const std::string& folder,
                      const std::vector<std::string>& what, const std::string& reason,
                      OutputFormat format, absl::Time now);

}  // namespace stretto::cli
