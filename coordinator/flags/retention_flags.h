// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of stretto-coordinator that say for how long ended jobs are kept.

#include <CLI/CLI.hpp>
#include <cstdint>

#include "coordinator/core/core.h"
#include "proto/base/limits.h"

namespace stretto::coordinator {

struct Retention {
  int64_t jobs = limits::kEndedJobs.value;
  double days = 0;  // 0: no limit
  int64_t retired = limits::kRetiredJobs.value;
};

// Parsing writes to `retention`, which must live until then.
void AddRetentionFlags(CLI::App& app, Retention& retention);

void SetRetention(const Retention& retention, CoreOptions* options);

}  // namespace stretto::coordinator
