// SPDX-License-Identifier: Apache-2.0
#pragma once
// The door of a rank while the ranks of a group meet. Whoever reaches the port may connect, but
// only a peer that proves the secret of the group gets in: gloo would take the first bytes of
// anybody for its own, and end the job.
//
// Both sides prove it, by HMAC-SHA256 over the group, both ranks and a fresh number of each side,
// so that an answer is good for one connection and for no other rank. The secret is made by rank 0
// and travels through the store of the attempt, as the addresses do. What follows on the connection
// is neither encrypted nor authenticated.

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/files.h"
#include "proto/base/mutex.h"

namespace stretto {

// Who we are in which group.
struct Membership {
  std::string group;
  int rank = 0;
  int size = 1;
  std::string secret;  // bytes
};

inline constexpr size_t kSecretBytes = 32;

// A fresh secret of kSecretBytes.
std::string NewSecret();

// The listener of one rank, for its peers of higher rank.
class Gate {
 public:
  // Listens at `address`, a numeric one of ours, on a free port. Connections wait until Open.
  // Errors: Unavailable.
  static absl::StatusOr<std::unique_ptr<Gate>> Listen(const std::string& address);
  // Closes the listener, and the connections that nobody has taken.
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // "HOST:PORT", as peers connect to it.
  const std::string& address() const { return address_; }

  // Lets peers in from now on, on a thread of its own. Call once.
  void Open(Membership self);

  // The connection of `peer`, whose rank is higher than ours. Call once for each. Errors:
  // DeadlineExceeded at `deadline` (Clock::Monotonic).
  absl::StatusOr<FileDescriptor> Await(int peer, absl::Duration deadline);

  // The number of connections that were dropped because they did not prove the secret.
  int64_t strangers() const { return strangers_; }

 private:
  struct Visitor;

  Gate(FileDescriptor listener, FileDescriptor wake, std::string address);
  void Serve();
  void Accept();
  // Reads and answers what has come. Returns false once the visitor is done with: let in or
  // dropped.
  bool Attend(Visitor& visitor);
  bool Answer(Visitor& visitor);
  void LetIn(Visitor& visitor);
  void Drop(Visitor& visitor);
  void DropOverdue();

  const FileDescriptor listener_;
  const FileDescriptor wake_;  // readable: the thread ends
  const std::string address_;
  Membership self_;
  std::deque<std::unique_ptr<Visitor>> visitors_;  // oldest first; of the thread
  absl::Duration pause_until_;                     // of the thread: no descriptor was left
  std::atomic<int64_t> strangers_{0};

  Mutex mu_;
  CondVar arrived_;
  std::map<int, FileDescriptor> peers_ GUARDED_BY(mu_);
  std::thread thread_;
};

// Connects to the gate of `peer` at `address`, whose rank is lower than ours, and tries again while
// it is dropped. Errors: DeadlineExceeded at `deadline`, Unavailable (nobody listens there, or
// somebody who does not know the secret), InvalidArgument (no address).
absl::StatusOr<FileDescriptor> ConnectToGate(const std::string& address, const Membership& self,
                                             int peer, absl::Duration deadline);

}  // namespace stretto
