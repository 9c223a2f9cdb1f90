// SPDX-License-Identifier: Apache-2.0
#pragma once
// A DeviceCommunicator on NCCL, for ranks with a GPU each.
//
// Numbers: NCCL adds in an order of its own (it depends on the algorithm, the number of ranks and
// an element's place) and rounds bf16 at every hop. All ranks get the same bits, and so does a
// second run on the same machines, but they are not those of rank order: only `local` has bitwise
// parity with the CPU. A NaN loses a max (fmaxf); it still reaches the sums that follow.
//
// Failures: NCCL has no deadline for a collective and may never notice that a peer died, so waiters
// use AwaitDevice. A group that failed is revoked: its kernels leave the device; where the library
// refuses that, the next poll aborts the communicator.
//
// Memory: Allocate is ncclMemAlloc. What Register gets becomes a symmetric window where NCCL and
// the machine have those (NCCL_WIN_ENABLE=0 forbids them), else a registered buffer; either takes
// fewer blocks from the GPU than memory that NCCL does not know. Registering waits for the peers.
//
// Where several groups have work on one device, set NCCL_LAUNCH_ORDER_IMPLICIT=1 for the process. A
// collective then starts only when all that the process enqueued before it, in any group, have
// started, and all ranks must enqueue in orders under which that ends: VerifySkeletons
// (worker/engine/program/skeleton.h) proves it. Set NCCL_RUNTIME_CONNECT=0 too: the group then
// connects in Connect, and first calls do not wait for peers on the host.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/polling.h"
#include "worker/comm/store.h"

namespace stretto {

struct NcclOptions {
  int rank = 0;
  int size = 1;
  Store* store = nullptr;   // borrowed during Connect; may be null when size is 1
  std::string prefix = {};  // of the keys in the store; one per group, lane and attempt
  std::string library = "libnccl.so.2";
  // How many blocks (each takes an SM) a collective may use; 0: NCCL's own choice.
  int min_ctas = 0;
  int max_ctas = 0;
  absl::Duration timeout = absl::Minutes(2);  // of Connect, and of each wait on the host
  Polling polling = {};
};

class NcclCommunicator : public DeviceCommunicator {
 public:
  // Meets the other ranks on the calling thread's current device; blocks until the group is
  // connected. All ranks must call it. Errors:
  //   InvalidArgument     options
  //   NotFound            the library cannot be opened
  //   FailedPrecondition  its version, or a rank with another one or with another group size; a use
  //                       that NCCL refuses, such as two ranks on one GPU
  //   DeadlineExceeded    ranks did not come in time; they are named
  //   Unavailable         a peer or the store went away, or NCCL failed
  // Its calls and polls also fail with FailedPrecondition where NCCL refuses a use; the group is
  // dead then too. The destructor waits for the peers up to ten seconds.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Connect(const NcclOptions& options);
};

// The version of a library, as "2.28.9". Errors of Connect for it.
absl::StatusOr<std::string> NcclVersion(const std::string& library);

}  // namespace stretto
