#include "worker/comm/paced.h"

#include <utility>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "worker/comm/reduce.h"
#include "worker/comm/sleep.h"

namespace stretto {

PacedCommunicator::PacedCommunicator(std::unique_ptr<Communicator> inner, const Link& link)
    : inner_(std::move(inner)), link_(link) {
  STRETTO_CHECK(inner_ != nullptr);
  STRETTO_CHECK(link_.bytes_per_second > 0);
  STRETTO_CHECK(link_.latency >= absl::ZeroDuration());
}

absl::Duration PacedCommunicator::WireTime(Collective collective, int ranks, int64_t bytes,
                                           const Link& link) {
  if (ranks == 1) return absl::ZeroDuration();
  const double share = static_cast<double>(ranks - 1) / ranks * static_cast<double>(bytes);
  int steps = 1;
  double wire_bytes = 0;
  switch (collective) {
    case Collective::kAllReduce:
      steps = 2 * (ranks - 1);
      wire_bytes = 2 * share;
      break;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      steps = ranks - 1;
      wire_bytes = share;
      break;
    case Collective::kBroadcast:
      wire_bytes = static_cast<double>(bytes);
      break;
    case Collective::kBarrier:
      break;
  }
  return steps * link.latency + absl::Seconds(wire_bytes / link.bytes_per_second);
}

template <class Call>
absl::Status PacedCommunicator::Pace(Collective collective, int64_t bytes, Call call) {
  if (size() == 1) return call();
  RETURN_IF_ERROR(inner_->Barrier());
  const absl::Duration start = Clock::Real().Monotonic();
  RETURN_IF_ERROR(call());
  SleepUntil(start + WireTime(collective, size(), bytes, link_));
  return absl::OkStatus();
}

absl::Status PacedCommunicator::AllReduce(TensorView tensor, ReduceOp op) {
  return Pace(Collective::kAllReduce, tensor.bytes(),
              [&] { return inner_->AllReduce(tensor, op); });
}

absl::Status PacedCommunicator::AllGather(TensorView in, TensorView out) {
  RETURN_IF_ERROR(CheckAllGather(in, out, size()));
  return Pace(Collective::kAllGather, out.bytes(), [&] { return inner_->AllGather(in, out); });
}

absl::Status PacedCommunicator::ReduceScatter(TensorView in, TensorView out) {
  RETURN_IF_ERROR(CheckReduceScatter(in, out, size()));
  return Pace(Collective::kReduceScatter, in.bytes(),
              [&] { return inner_->ReduceScatter(in, out); });
}

absl::Status PacedCommunicator::Broadcast(TensorView tensor, int root) {
  RETURN_IF_ERROR(CheckBroadcast(root, size()));
  return Pace(Collective::kBroadcast, tensor.bytes(),
              [&] { return inner_->Broadcast(tensor, root); });
}

absl::Status PacedCommunicator::Barrier() {
  RETURN_IF_ERROR(inner_->Barrier());
  SleepUntil(Clock::Real().Monotonic() + WireTime(Collective::kBarrier, size(), 0, link_));
  return absl::OkStatus();
}

}  // namespace stretto
