// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto up`: runs a cluster on this machine in the foreground. It makes a CA and certificates
// for it (up_certificates.h), starts the coordinator, then the workers, prints their addresses, and
// waits. Ctrl-C or SIGTERM stops the workers, then the coordinator; a second one kills them. If one
// of them ends by itself, the others are stopped too, because an incomplete cluster is of no use.

#include <string>

#include "absl/time/time.h"
#include "coordinator/cli/base/exit_codes.h"
#include "coordinator/cli/base/interrupt.h"
#include "coordinator/cli/base/terminal.h"

namespace stretto::cli {

struct UpOptions {
  int workers = 1;
  int slots = 0;  // per worker; 0: this machine's cores / workers, at least 1
  std::string listen = "127.0.0.1:7070";
  std::string metrics_listen = "127.0.0.1:0";  // the coordinator's; workers take free ports
  std::string state_dir;
  std::string data_root;        // empty: STATE_DIR/data
  std::string checkpoint_root;  // empty: STATE_DIR/checkpoints
  bool no_tls = false;
  std::string user_state_dir;  // where other commands look for it (base/local_cluster.h)
  std::string binary_dir;      // holds stretto-coordinator and stretto-worker
  absl::Duration start_timeout = absl::Seconds(30);  // for each to become ready
  absl::Duration stop_grace = absl::Seconds(20);     // before SIGKILL
};

// Returns when no process that it, or one of its children, started is left. The calling process
// becomes a subreaper and should have no other children.
ExitCode RunUp(UpOptions options, Terminal& terminal, Interrupt& interrupt);

}  // namespace stretto::cli
