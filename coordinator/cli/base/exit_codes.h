// SPDX-License-Identifier: Apache-2.0
#pragma once
// The exit statuses of `stretto`. They are public: scripts rely on them and `stretto --help` prints
// them.

namespace stretto::cli {

enum ExitCode {
  kOk = 0,
  kError = 1,         // bad input, refused by the server, or the server cannot be reached
  kUsage = 2,         // unknown command or flag
  kJobFailed = 3,     // the job that the command waited for FAILED
  kJobCancelled = 4,  // the job that the command waited for was CANCELLED
  kDetached = 5,      // Ctrl-C while following: the job continues
};

inline constexpr char kExitCodeHelp[] =
    "Exit codes: 0 success; 1 error (invalid input, refused, unreachable); 2 usage\n"
    "            error; 3 job failed; 4 job cancelled; 5 detached by Ctrl-C while the\n"
    "            job continues";

}  // namespace stretto::cli
