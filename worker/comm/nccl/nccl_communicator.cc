// SPDX-License-Identifier: Apache-2.0

// Every call of NCCL is non-blocking: it is issued, and where it is still in progress it is polled
// until a deadline (Settle). The first failure revokes the group, so that kernels which wait for a
// lost peer leave the device; every later call returns that failure. Registered memory is kept
// until the group has forgotten it.

#include "worker/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/comm/nccl/nccl_library.h"
#include "worker/comm/nccl/nccl_rendezvous.h"

namespace stretto {
namespace {

// For how long leaving waits for peers and for the device.
constexpr absl::Duration kGrace = absl::Seconds(10);
constexpr char kWindow[] = "register a symmetric window (NCCL_WIN_ENABLE=0 does without)";

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kI32:
      break;
  }
  return ncclInt32;
}

absl::StatusCode CodeOf(ncclResult_t result) {
  return result == ncclInvalidUsage || result == ncclInvalidArgument
             ? absl::StatusCode::kFailedPrecondition
             : absl::StatusCode::kUnavailable;
}

class Nccl final : public NcclCommunicator {
 public:
  Nccl(const NcclOptions& options, NcclLibrary nccl) : options_(options), nccl_(std::move(nccl)) {}

  ~Nccl() override {
    if (comm_ != nullptr) Poll().IgnoreError();
    if (comm_ == nullptr) return;
    if (dead_.ok()) {
      for (const auto& [memory, registration] : registered_) Deregister(registration);
      nccl_.CommFinalize(comm_);
    }
    // Nobody may be left to finalize with, and a revoked device may not come to rest.
    if (!irrevocable_ && Settle(options_.polling.clock->Monotonic() + kGrace) == ncclSuccess) {
      nccl_.CommDestroy(comm_);
    } else {
      nccl_.CommAbort(comm_);
    }
  }

  absl::Status Join() {
    const absl::Duration deadline = options_.polling.clock->Monotonic() + options_.timeout;
    ASSIGN_OR_RETURN(const ncclUniqueId id, AgreeOnUniqueId(options_, nccl_, deadline));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    // Blocks of one cluster must start together, which a busy device delays.
    config.cgaClusterSize = 0;
    if (options_.min_ctas > 0) config.minCTAs = options_.min_ctas;
    if (options_.max_ctas > 0) config.maxCTAs = options_.max_ctas;
    config.commName = options_.prefix.c_str();
    ncclResult_t result =
        nccl_.CommInitRankConfig(&comm_, options_.size, id, options_.rank, &config);
    if (result == ncclInProgress) result = Settle(deadline);
    if (result == ncclSuccess) return absl::OkStatus();
    absl::Status status =
        result == ncclInProgress
            ? absl::DeadlineExceededError(
                  absl::StrCat("all ranks appeared, but the group did not stand within ",
                               absl::FormatDuration(options_.timeout)))
            : absl::Status(CodeOf(result), absl::StrCat("cannot join: ", TextOf(result)));
    AbortNow();
    return status;
  }

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  absl::Status Run(const Collective& collective, void* stream) override {
    RETURN_IF_ERROR(CheckDeviceCollective(collective, size()));
    return Call(NameOf(collective.kind),
                [&] { return Enqueue(collective, static_cast<cudaStream_t>(stream)); });
  }

  absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) override {
    void* data = nullptr;
    const ncclResult_t result = nccl_.MemAlloc(&data, bytes);
    if (result != ncclSuccess) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "NCCL cannot allocate ", bytes, " bytes of device memory: ", TextOf(result)));
    }
    return std::shared_ptr<void>(data, [free = nccl_.MemFree](void* memory) { free(memory); });
  }

  absl::Status Register(const std::shared_ptr<void>& memory, int64_t bytes) override {
    RETURN_IF_ERROR(dead_);
    const auto [at, made] = registered_.try_emplace(memory.get());
    STRETTO_CHECK(made);
    Registration& registration = at->second;  // NCCL may write to it until nothing is in progress
    registration.memory = memory;
    const size_t size = bytes;
    absl::Status status = Offer(kWindow, [&] {
      return nccl_.CommWindowRegister(comm_, memory.get(), size, &registration.window,
                                      NCCL_WIN_COLL_SYMMETRIC);
    });
    // None: there is no symmetric memory here.
    if (status.ok() && registration.window == nullptr) {
      status = Offer("register", [&] {
        return nccl_.CommRegister(comm_, memory.get(), size, &registration.buffer);
      });
    }
    // A dead group's memory stays.
    if (!status.ok() && dead_.ok()) registered_.erase(at);
    return status;
  }

  void Unregister(const void* memory) override {
    const auto at = registered_.find(memory);
    if (at == registered_.end()) return;
    // A dead group's calls may wait for what is gone; its end forgets the memory.
    Poll().IgnoreError();
    const bool forgotten = comm_ == nullptr || (dead_.ok() && Deregister(at->second));
    if (forgotten) registered_.erase(at);
  }

  absl::Status Poll() override {
    if (irrevocable_) AbortNow();
    if (!dead_.ok()) return dead_;
    if (aborted_) return End(absl::AbortedError("poll: aborted"));
    const ncclResult_t state = State();
    if (state == ncclSuccess || state == ncclInProgress) return absl::OkStatus();
    return End(absl::Status(CodeOf(state), absl::StrCat("poll: ", TextOf(state))));
  }

  void Abort() override { aborted_ = true; }

 private:
  ncclResult_t Enqueue(const Collective& collective, cudaStream_t stream) {
    const TensorView &in = collective.in, &out = collective.out;
    const ncclDataType_t type = TypeOf(in.dtype);
    const ncclRedOp_t op = collective.op == ReduceOp::kMax ? ncclMax : ncclSum;
    const size_t in_count = in.count();
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        return nccl_.AllReduce(in.data, out.data, in_count, type, op, comm_, stream);
      case CollectiveKind::kReduceScatter:
        return nccl_.ReduceScatter(in.data, out.data, out.count(), type, op, comm_, stream);
      case CollectiveKind::kAllGather:
        return nccl_.AllGather(in.data, out.data, in_count, type, comm_, stream);
      // NCCL's ring from the root is a chain, which a tensor travels in pieces.
      case CollectiveKind::kBroadcast:
        return nccl_.Broadcast(in.data, out.data, in_count, type, collective.root, comm_, stream);
      case CollectiveKind::kBarrier:
        break;
    }
    return ncclInvalidUsage;  // not on a device: checked before
  }

  ncclResult_t State() {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t result = nccl_.CommGetAsyncError(comm_, &state);
    return result == ncclSuccess ? state : result;
  }

  // Waits until nothing is in progress on the host; ncclInProgress when time is up (or, on a group
  // that lives, when Abort was called).
  ncclResult_t Settle(absl::Duration deadline) {
    while (true) {
      const ncclResult_t state = State();
      if (state != ncclInProgress) return state;
      if (dead_.ok() && aborted_) return state;
      if (options_.polling.clock->Monotonic() >= deadline) return state;
      options_.polling.pause();
    }
  }

  std::string TextOf(ncclResult_t result) {
    return absl::StrCat(nccl_.GetErrorString(result), ": ", nccl_.GetLastError(comm_));
  }

  // Memory that NCCL knows, in one of two ways.
  struct Registration {
    std::shared_ptr<void> memory;  // shared: a dead group may need it longer than its owner
    ncclWindow_t window = nullptr;
    void* buffer = nullptr;
  };

  // A call that the group survives when NCCL refuses it.
  template <class Start>
  absl::Status Offer(const char* name, Start start) {
    ncclResult_t refusal = ncclSuccess;
    std::string why;
    const absl::Status status = Call(name, [&] {
      refusal = start();
      if (refusal == ncclSuccess || refusal == ncclInProgress) return refusal;
      why = TextOf(refusal);
      return State();
    });
    if (!status.ok() || why.empty()) return status;
    return absl::Status(CodeOf(refusal), absl::StrCat(Name(), name, ": ", why));
  }

  // Whether NCCL has forgotten the memory.
  bool Deregister(const Registration& registration) {
    ncclResult_t result = ncclSuccess;
    if (registration.window != nullptr) {
      result = nccl_.CommWindowDeregister(comm_, registration.window);
    } else if (registration.buffer != nullptr) {
      result = nccl_.CommDeregister(comm_, registration.buffer);
    }
    if (result == ncclInProgress) result = Settle(options_.polling.clock->Monotonic() + kGrace);
    return result == ncclSuccess;
  }

  std::string Name() const {
    return absl::StrCat("rank ", rank(), " of ", size(), " (nccl group '", options_.prefix, "'): ");
  }

  template <class Start>
  absl::Status Call(const char* name, Start start) {
    if (!dead_.ok()) return dead_;
    ++calls_;
    const std::string where = absl::StrCat(name, " (call ", calls_, "): ");
    if (aborted_) return End(absl::AbortedError(absl::StrCat(where, "aborted")));
    ncclResult_t result = start();
    // The work is on the stream only when nothing is in progress any more.
    if (result == ncclInProgress) {
      result = Settle(options_.polling.clock->Monotonic() + options_.timeout);
    }
    if (result == ncclSuccess) return absl::OkStatus();
    if (result != ncclInProgress) {
      return End(absl::Status(CodeOf(result), absl::StrCat(where, TextOf(result))));
    }
    if (aborted_) return End(absl::AbortedError(absl::StrCat(where, "aborted")));
    return End(absl::DeadlineExceededError(absl::StrCat(where, "peers did not take part within ",
                                                        absl::FormatDuration(options_.timeout))));
  }

  // Cuts short what is on the device.
  absl::Status End(const absl::Status& why) {
    dead_ = absl::Status(why.code(), absl::StrCat(Name(), why.message()));
    // An abort waits for graphs with its collectives to be destroyed: it is left to the next poll.
    const ncclResult_t result = nccl_.CommRevoke(comm_, NCCL_REVOKE_DEFAULT);
    irrevocable_ = result != ncclSuccess && result != ncclInProgress;
    return dead_;
  }

  void AbortNow() {
    if (comm_ != nullptr) nccl_.CommAbort(std::exchange(comm_, nullptr));
  }

  const NcclOptions options_;
  const NcclLibrary nccl_;
  std::atomic<bool> aborted_{false};

  // Of the calling thread.
  ncclComm_t comm_ = nullptr;  // null once aborted; dead_ is set then
  absl::Status dead_;
  bool irrevocable_ = false;  // dead, and to be aborted
  int64_t calls_ = 0;
  std::map<const void*, Registration> registered_;  // by memory; places stay
};

absl::Status CheckOptions(const NcclOptions& options) {
  const auto refused = [&](auto... text) {
    return absl::InvalidArgumentError(absl::StrCat("nccl group '", options.prefix, "': ", text...));
  };
  if (options.size < 1) return refused("size is ", options.size, ", expected at least 1");
  if (options.rank < 0 || options.rank >= options.size) {
    return refused("rank is ", options.rank, ", expected 0 to ", options.size - 1);
  }
  if (options.size > 1 && options.store == nullptr) {
    return refused("no store, expected one for ", options.size, " ranks");
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return refused("timeout is ", absl::FormatDuration(options.timeout), ", expected above 0");
  }
  if (options.min_ctas < 0 || options.max_ctas < 0 ||
      (options.max_ctas > 0 && options.min_ctas > options.max_ctas)) {
    return refused("min_ctas is ", options.min_ctas, " and max_ctas ", options.max_ctas,
                   ", expected 0 <= min_ctas <= max_ctas");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Connect(
    const NcclOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const auto connect = [&]() -> absl::StatusOr<std::unique_ptr<NcclCommunicator>> {
    ASSIGN_OR_RETURN(NcclLibrary nccl, NcclLibrary::Open(options.library));
    auto communicator = std::make_unique<Nccl>(options, std::move(nccl));
    RETURN_IF_ERROR(communicator->Join());
    return communicator;
  };
  auto communicator = connect();
  if (communicator.ok()) return communicator;
  const absl::Status& status = communicator.status();
  return absl::Status(status.code(),
                      absl::StrCat("rank ", options.rank, " of ", options.size, " (nccl group '",
                                   options.prefix, "'): ", status.message()));
}

absl::StatusOr<std::string> NcclVersion(const std::string& library) {
  ASSIGN_OR_RETURN(const NcclLibrary nccl, NcclLibrary::Open(library));
  return nccl.version;
}

}  // namespace stretto
