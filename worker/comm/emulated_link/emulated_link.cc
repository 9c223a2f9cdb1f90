// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/emulated_link/emulated_link.h"

#include <atomic>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/link.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

class EmulatedLink final : public DeviceCommunicator {
 public:
  explicit EmulatedLink(const EmulatedLinkOptions& options) : options_(options) {}

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  absl::Status Run(const Collective& collective, void* stream) override {
    RETURN_IF_ERROR(CheckDeviceCollective(collective, size()));
    RETURN_IF_ERROR(Poll());
    const char* error = LaunchLinkTransfer(TransferOf(collective), stream);
    if (error == nullptr) return absl::OkStatus();
    dead_ = absl::UnavailableError(absl::StrCat(Name(), NameOf(collective.kind), ": ", error));
    return dead_;
  }

  absl::Status Poll() override {
    if (dead_.ok() && aborted_) dead_ = absl::AbortedError(absl::StrCat(Name(), "aborted"));
    return dead_;
  }

  void Abort() override { aborted_ = true; }

 private:
  std::string Name() const {
    return absl::StrCat("rank ", rank(), " of ", size(), " (emulated link): ");
  }

  // As if every rank brought what this one brings: what it gets is made of the part of `in` that
  // goes to it, once from each rank.
  LinkTransfer TransferOf(const Collective& collective) const {
    const CollectiveInfo& info = collective.info();
    const TensorView& in = collective.in;
    const int64_t parts = info.in_parts ? size() : 1;
    const int64_t offset = info.in_parts ? rank() * (in.bytes() / parts) : 0;
    const bool sums = info.reduces && collective.op == ReduceOp::kSum;
    LinkTransfer transfer = {.dtype = in.dtype,
                             .in = static_cast<const char*>(in.data) + offset,
                             .out = collective.out.data,
                             .count = in.count() / parts,
                             .copies = info.out_parts ? size() : 1,
                             .scale = sums ? size() : 1,
                             .blocks = options_.blocks};
    if (size() == 1) return transfer;
    // An all_reduce, which passes the ring twice, takes its bytes / bandwidth.
    const int passes = info.rooted ? 1 : info.ring_passes;
    const double bytes = static_cast<double>(collective.bytes()) * passes / 2;
    transfer.latency_nanoseconds = absl::ToInt64Nanoseconds(options_.latency);
    transfer.transfer_nanoseconds = static_cast<int64_t>(bytes / options_.bytes_per_second * 1e9);
    return transfer;
  }

  const EmulatedLinkOptions options_;
  std::atomic<bool> aborted_{false};
  absl::Status dead_;  // of the calling thread
};

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceCommunicator>> MakeEmulatedLink(
    const EmulatedLinkOptions& options) {
  const auto refused = [](auto... text) {
    return absl::InvalidArgumentError(absl::StrCat("emulated link: ", text...));
  };
  if (options.size < 1) return refused("size is ", options.size, ", expected at least 1");
  if (options.rank < 0 || options.rank >= options.size) {
    return refused("rank is ", options.rank, ", expected 0 to ", options.size - 1);
  }
  if (options.size > kMostLinkScale) {
    return refused("size is ", options.size, ", expected at most ", kMostLinkScale);
  }
  if (options.blocks < 1) return refused("blocks is ", options.blocks, ", expected at least 1");
  if (options.latency < absl::ZeroDuration()) {
    return refused("latency is ", absl::FormatDuration(options.latency), ", expected 0 or more");
  }
  if (!(options.bytes_per_second > 0)) {
    return refused("bytes_per_second is ", options.bytes_per_second, ", expected above 0");
  }
  return std::make_unique<EmulatedLink>(options);
}

}  // namespace stretto
