// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Communicator over TCP, on gloo's transport: rendezvous, full mesh, one epoll thread
// that groups may share.
//
// A broadcast is a chain of ranks in chunks (collective.h), so that no link carries a tensor twice.
// all_reduce is a direct reduce_scatter (each rank receives its part from every peer and adds in
// rank order) followed by a direct all_gather; small tensors go whole to every peer in one step.
// gloo's own ring moves the same 2(n-1)/n bytes, but adds in an order that depends on an element's
// place, rounds bf16 at each hop and cannot say which peer it waits for.
//
// A rank whose call fails closes all its connections, so that nobody waits for it. The loss of one
// rank thus ends the calls of all; the first to fail names the rank that went away, others may name
// a rank that only followed.
//
// A communicator allocates 8 MiB for reductions when it connects, and little in a call beyond what
// gloo does for each transfer. If the caller says that it calls a reduction next (RunTelling), the
// receives of that are posted before the present call ends, so that peers can send at once.
//
// The epoll thread runs under SCHED_BATCH: packets that arrive while a rank computes on the same
// core are taken in turns of some milliseconds, not one by one (docs/BENCHMARKS.md has what that
// saves).
//
// While the ranks meet, whoever does not prove the secret of the group is dropped (gate.h).
// Afterwards traffic is neither encrypted nor authenticated: bind it to an interface you trust. A
// peer that calls with another size than ours breaks gloo's framing and ends the process; the
// verifier rules that out for step programs.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/comm/call_watch.h"
#include "worker/comm/communicator.h"
#include "worker/comm/store.h"

namespace stretto {

// The thread that moves the bytes of connections on one network interface. Groups may share it.
struct GlooInterface;
using GlooNetwork = std::shared_ptr<const GlooInterface>;

// `address` is numeric, of the local interface to listen on. Errors: InvalidArgument (an address
// that is not ours), Unavailable.
absl::StatusOr<GlooNetwork> OpenGlooNetwork(const std::string& address);

struct GlooOptions {
  int rank = 0;
  int size = 1;
  Store* store = nullptr;                     // borrowed during Connect; may be null when size is 1
  std::string prefix = {};                    // of the keys in the store; one per group and attempt
  GlooNetwork network = nullptr;              // may be null when size is 1
  absl::Duration timeout = absl::Minutes(2);  // of each call, and at most of Connect
  // Of Connect, if it is less.
  absl::Duration meeting = absl::InfiniteDuration();
  CallWatch* watch = nullptr;  // borrowed for the life of the group; may be null
  // Connect adds the number of connections that it dropped: not of a rank of this group.
  int64_t* strangers = nullptr;
};

class GlooCommunicator : public Communicator {
 public:
  // Meets the other ranks; blocks until all are connected. All ranks must call it. The process
  // ignores SIGPIPE from then on, unless it has a handler of its own. Errors: InvalidArgument
  // (options), DeadlineExceeded (a rank did not appear in time; it is
  // named), Unavailable (a peer went away, or the store did).
  static absl::StatusOr<std::unique_ptr<GlooCommunicator>> Connect(const GlooOptions& options);
};

}  // namespace stretto
