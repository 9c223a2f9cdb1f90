// SPDX-License-Identifier: Apache-2.0
#pragma once
// The life of a trainer process: attach, prepare, connect, train, report the end.

#include <string>

namespace stretto::trainer {

struct RankProcessOptions {
  std::string socket;  // of the daemon
  std::string job_uid;
  long long epoch = 0;
  int rank = 0;
};

// Runs a rank and returns the exit code of the process: 0 when training completed or was stopped on
// request, 1 when it failed (the reason is in the rank's RankExit report and in the log), 2 when
// the daemon refused this rank. SIGTERM and SIGINT must be blocked in the calling thread.
int RunRank(const RankProcessOptions& options);

}  // namespace stretto::trainer
