// SPDX-License-Identifier: Apache-2.0
#include "coordinator/flags/waiting_flags.h"

#include "proto/base/limits.h"
#include "proto/commands/ranges.h"

namespace stretto::coordinator {

void AddWaitingFlags(CLI::App& app, CoreOptions& options) {
  app.add_option(limits::kWaitingJobs.flag, options.most_waiting,
                 "jobs of all projects that may wait at once; a further one is refused")
      ->check(Integer(1, 1'000'000).description("1 to 1000000"))
      ->capture_default_str();
  app.add_option(limits::kWaitingSpecBytes.flag, options.most_waiting_bytes,
                 "bytes that the specs of the jobs that wait may have together; a job beyond them "
                 "is refused")
      ->check(Integer(int64_t{1} << 20, int64_t{1} << 40).description("1048576 to 1099511627776"))
      ->capture_default_str();
}

}  // namespace stretto::coordinator
