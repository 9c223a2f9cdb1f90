// SPDX-License-Identifier: Apache-2.0
#pragma once
// The listener of the coordinator's gRPC port. gRPC 1.51 closes its own listener for ever when a
// process has no descriptor left, and admits as many connections as there are descriptors. This one
// bounds connections in all and by machine, waits and continues where gRPC stops, and hands what it
// admits to gRPC (its external connection acceptor), which does handshakes and all that follows. It
// closes what it has admitted only where memory runs out (memory_guard.h), and who sends without a
// pause from the beginning (handover.h).

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/front/handover.h"
#include "coordinator/front/memory_guard.h"
#include "proto/base/files.h"
#include "proto/base/line_rate.h"
#include "proto/base/mutex.h"
#include "proto/base/sockets.h"

namespace stretto::service {

// Fewer connections are open in all if the process may have fewer descriptors.
struct FrontLimits {
  int64_t connections = 0;                  // in all
  int64_t of_one_machine = 0;               // SocketAddress::Machine
  int64_t memory_bytes = int64_t{1} << 40;  // of this process (memory_guard.h)
};

// Raises the limit of descriptors of this process to what the system allows: a shell's is often
// 1,024, and each connection takes one.
void RaiseDescriptorLimit();

class Front {
 public:
  using Take = Handover::Take;

  // Listens at "HOST:PORT"; connections wait until Open. Errors: InvalidArgument (no address),
  // Unavailable (in use, or not one of ours), naming the address.
  static absl::StatusOr<std::unique_ptr<Front>> Listen(const std::string& address,
                                                       const FrontLimits& limits);
  // Calls Close.
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  int port() const { return port_; }
  // Call once.
  void Open(Take take);
  // Closes the listener; the counts stay. Connections that were taken stay, too; that of a call of
  // Take which has not returned is ended. Probe must not be called afterwards.
  void Close();

  // Connects to the port and waits until the front has taken notice. Thread-safe; calls within a
  // second of another have its answer. Errors: Unavailable, if that takes longer than a second.
  absl::Status Probe();

  // ---- counts, thread-safe
  int64_t connections() const { return open_; }  // as of the last second
  int64_t refused_in_all() const { return refused_in_all_; }
  int64_t refused_of_one_machine() const { return refused_of_one_machine_; }
  int64_t closed_for_memory() const { return closed_for_memory_; }

 private:
  Front(std::vector<FileDescriptor> listeners, FileDescriptor wake, int port,
        const FrontLimits& limits);
  void Serve();
  void Accept(int listener);
  void NoteLong(const Connection& ended);
  // Whether the connection of `peer` is one of Probe, which learns of it.
  bool IsProbe(const std::string& peer);
  // Returns whether there is room for another connection of this machine, and counts if not.
  bool Admits(const std::string& machine);
  void ForgetClosed();
  // Gives free memory back to the system, `after` from now at the latest.
  void Trim(absl::Duration after);
  absl::Status Dial();

  std::vector<FileDescriptor> listeners_;
  const FileDescriptor wake_;  // readable: the thread ends
  const int port_;
  const FrontLimits limits_;
  std::unique_ptr<Handover> handover_;  // from Open to Close

  // Of the thread.
  std::vector<Connection> taken_;
  std::map<std::string, int64_t> by_machine_;
  MemoryGuard guard_;
  absl::Duration paused_until_;                        // no descriptor was left
  absl::Duration trim_at_ = absl::InfiniteDuration();  // when to give memory back
  absl::Duration swept_;                               // when Serve swept last
  LineRate lines_;                                     // of refusals
  LineRate long_lines_;                                // of connections that keep the handover

  std::atomic<int64_t> open_{0}, refused_in_all_{0}, refused_of_one_machine_{0},
      closed_for_memory_{0};

  Mutex probe_mu_;  // of one probe at a time
  absl::Duration probed_ GUARDED_BY(probe_mu_) = -absl::InfiniteDuration();
  absl::Status found_ GUARDED_BY(probe_mu_);
  Mutex mu_;
  CondVar noticed_;
  std::string expected_ GUARDED_BY(mu_);  // address of the probe's own socket; empty: noticed
  std::thread thread_;
};

}  // namespace stretto::service
