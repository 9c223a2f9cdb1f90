#pragma once
// A decorator that makes any Communicator behave like a link of given bandwidth and latency, by
// sleeping: waiting costs no CPU, as on a network card. Figures taken through it are labelled
// "emulated link".
//
// The wire is busy from the moment the last rank is ready (an inner barrier) for WireTime; the
// inner call runs meanwhile. A call slower than the link is not slowed further. Each
// PacedCommunicator has a link of its own. Abort wakes the inner call; a rank that already sleeps
// finishes its wire time.

#include <memory>

#include "absl/time/time.h"
#include "worker/comm/communicator.h"

namespace stretto {

struct Link {
  double bytes_per_second = 0;  // each rank's, in each direction; must be > 0
  absl::Duration latency;       // per step of the ring
};

class PacedCommunicator final : public Communicator {
 public:
  PacedCommunicator(std::unique_ptr<Communicator> inner, const Link& link);

  // latency * steps + wire bytes per rank / bandwidth, with n ranks and `bytes` of the whole tensor
  // (all_reduce, broadcast: the tensor; all_gather: out; reduce_scatter: in):
  //   all_reduce      2(n-1) steps   2(n-1)/n * bytes
  //   all_gather      n-1 steps      (n-1)/n * bytes
  //   reduce_scatter  n-1 steps      (n-1)/n * bytes
  //   broadcast       1 step         bytes
  //   barrier         1 step         0
  // Zero for one rank.
  static absl::Duration WireTime(Collective collective, int ranks, int64_t bytes, const Link& link);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status AllReduce(TensorView tensor, ReduceOp op) override;
  absl::Status AllGather(TensorView in, TensorView out) override;
  absl::Status ReduceScatter(TensorView in, TensorView out) override;
  absl::Status Broadcast(TensorView tensor, int root) override;
  absl::Status Barrier() override;
  void Abort() override { inner_->Abort(); }

 private:
  template <class Call>
  absl::Status Pace(Collective collective, int64_t bytes, Call call);

  const std::unique_ptr<Communicator> inner_;
  const Link link_;
};

}  // namespace stretto
