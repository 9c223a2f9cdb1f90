// SPDX-License-Identifier: Apache-2.0

// Each collective is written as transfers to and from every peer (Exchange) plus arithmetic. A
// reduction receives every rank's part and adds in rank order, which is what makes its bits those
// of `local`. All calls run through Run, which sets the deadline and turns an exception into an
// error that ends the group.

#include "worker/comm/gloo/gloo_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gloo/transport/context.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "worker/comm/gloo/mesh.h"
#include "worker/comm/gloo/posts.h"
#include "worker/comm/reduce.h"

namespace stretto {
namespace {

// Up to here a second network step costs more than sending everything to everyone.
constexpr int64_t kOneStepBytes = 16 << 10;

struct Part {
  int64_t begin = 0;
  int64_t count = 0;
};

// What passes between this rank and one peer in one step. No bytes: nothing is sent.
struct Transfer {
  void* send = nullptr;
  int64_t send_bytes = 0;
  void* receive = nullptr;
  int64_t receive_bytes = 0;
};

class Gloo final : public GlooCommunicator {
 public:
  // `mesh` is null for a group of one.
  Gloo(const GlooOptions& options, std::shared_ptr<gloo::transport::Context> mesh)
      : rank_(options.rank),
        size_(options.size),
        name_(options.prefix),
        timeout_(options.timeout),
        posts_(std::move(mesh), options.rank, options.size),
        transfers_(size_),
        inputs_(size_) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status Run(const Collective& collective) override {
    RETURN_IF_ERROR(CheckCollective(collective, size_));
    ++calls_;
    if (posts_.aborted()) return Fail(collective.kind, "");
    if (!dead_.ok()) return dead_;
    deadline_ = Clock::Real().Monotonic() + timeout_;
    try {
      Carry(collective);
    } catch (const std::exception& error) {
      return Fail(collective.kind, TextOf(error));
    }
    return absl::OkStatus();
  }

  void Abort() override { posts_.Abort(); }

 private:
  static void* At(const TensorView& tensor, int64_t element) {
    return static_cast<char*>(tensor.data) + element * static_cast<int64_t>(SizeOf(tensor.dtype));
  }

  // Throws gloo's exceptions. The transfers of a step stay posted until Fail has closed the
  // connections, so they point to nothing in a frame of ours.
  void Carry(const Collective& collective) {
    const TensorView &in = collective.in, &out = collective.out;
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        return AllReduce(in, collective.op);
      case CollectiveKind::kReduceScatter:
        return ReduceParts(in, collective.op, out.data, [&](int peer) {
          return Part{peer * out.count(), out.count()};
        });
      case CollectiveKind::kAllGather: {
        const auto part_of = [&](int peer) { return Part{peer * in.count(), in.count()}; };
        void* mine = At(out, part_of(rank_).begin);
        if (in.bytes() > 0 && mine != in.data) {
          std::memcpy(mine, in.data, in.bytes());
        }
        return GatherParts(out, part_of);
      }
      case CollectiveKind::kBroadcast:
        return Broadcast(in, collective.root);
      case CollectiveKind::kBarrier:
        return Barrier();
    }
  }

  void AllReduce(const TensorView& tensor, ReduceOp op) {
    const int64_t count = tensor.count();
    if (tensor.bytes() <= kOneStepBytes) {
      ReduceParts(tensor, op, tensor.data, [&](int) { return Part{0, count}; });
      return;
    }
    const auto part_of = [&](int peer) {
      const int64_t begin = PartBegin(count, peer, size_);
      return Part{begin, PartBegin(count, peer + 1, size_) - begin};
    };
    ReduceParts(tensor, op, At(tensor, part_of(rank_).begin), part_of);
    GatherParts(tensor, part_of);
  }

  // Every rank but the root receives from the one before it in the chain, and every rank but the last
  // sends each chunk on as soon as it has it.
  void Broadcast(const TensorView& tensor, int root) {
    if (size_ == 1) return;
    const int place = (rank_ - root + size_) % size_;
    const int before = (rank_ + size_ - 1) % size_, after = (rank_ + 1) % size_;
    const bool receives = place > 0 && tensor.bytes() > 0, sends = place < size_ - 1;
    const int64_t chunks = ChainChunks(tensor.bytes());
    const auto post = [&](int peer, int64_t chunk, bool receive) {
      const int64_t begin = tensor.bytes() * chunk / chunks;
      posts_.Post(peer, exchanges_ + 1 + chunk, static_cast<char*>(tensor.data) + begin,
                  tensor.bytes() * (chunk + 1) / chunks - begin, receive);
    };
    for (int64_t chunk = 0; receives && chunk < chunks; ++chunk) post(before, chunk, true);
    const size_t received = posts_.count();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (receives) posts_.Await(chunk, deadline_);
      if (sends) post(after, chunk, false);
    }
    for (size_t i = received; i < posts_.count(); ++i) posts_.Await(i, deadline_);
    posts_.Clear();
    exchanges_ += chunks;
  }

  void Barrier() {
    // One byte to and from every peer, in memory that outlives this call's connections.
    scratch_.resize(std::max<size_t>(scratch_.size(), size_ + 1));
    for (size_t peer = 0; peer < transfers_.size(); ++peer) {
      transfers_[peer] = {&scratch_.back(), 1, &scratch_[peer], 1};
    }
    Exchange();
  }

  absl::Status Fail(CollectiveKind kind, const std::string& text) {
    const std::string call = absl::StrCat(NameOf(kind), " (call ", calls_, ") on rank ", rank_,
                                          " of ", size_, " (gloo group '", name_, "'): ");
    if (posts_.aborted()) {
      dead_ = absl::AbortedError(absl::StrCat(call, "aborted"));
    } else if (IsTimeout(text)) {
      dead_ = absl::DeadlineExceededError(absl::StrCat(call, "peer rank ", posts_.peer(),
                                                       " did not take part within ",
                                                       absl::FormatDuration(timeout_)));
    } else {
      dead_ =
          absl::UnavailableError(absl::StrCat(call, "lost peer rank ", posts_.peer(), ": ", text));
    }
    // No connection may touch the caller's buffers from here on, and our peers must not wait.
    posts_.Close();
    return dead_;
  }

  // Every rank's part of `in`, reduced over all ranks in rank order; ours goes to `out`.
  template <class PartOf>
  void ReduceParts(const TensorView& in, ReduceOp op, void* out, PartOf part_of) {
    const auto element_bytes = static_cast<int64_t>(SizeOf(in.dtype));
    const Part mine = part_of(rank_);
    const int64_t bytes = mine.count * element_bytes;
    scratch_.resize(std::max<size_t>(scratch_.size(), size_ * bytes));
    for (int peer = 0; peer < size_; ++peer) {
      const Part part = part_of(peer);
      void* receive = scratch_.data() + peer * bytes;
      transfers_[peer] = {At(in, part.begin), part.count * element_bytes, receive, bytes};
      inputs_[peer] = peer == rank_ ? At(in, mine.begin) : receive;
    }
    Exchange();
    Reduce(in.dtype, op, inputs_, {&out, 1}, 0, mine.count);
  }

  // Sends our part of `out` to all peers and receives theirs.
  template <class PartOf>
  void GatherParts(const TensorView& out, PartOf part_of) {
    const auto element_bytes = static_cast<int64_t>(SizeOf(out.dtype));
    const Part mine = part_of(rank_);
    for (int peer = 0; peer < size_; ++peer) {
      const Part part = part_of(peer);
      transfers_[peer] = {At(out, mine.begin), mine.count * element_bytes, At(out, part.begin),
                          part.count * element_bytes};
    }
    Exchange();
  }

  // Does all of transfers_ (indexed by peer; our own is ignored) and waits for them.
  void Exchange() {
    if (size_ == 1) return;
    const uint64_t slot = ++exchanges_;
    for (int peer = 0; peer < size_; ++peer) {
      const Transfer& transfer = transfers_[peer];
      posts_.Post(peer, slot, transfer.receive, transfer.receive_bytes, true);
    }
    // Each rank starts with its next neighbour, so that no one is everybody's first.
    for (int step = 1; step < size_; ++step) {
      const int peer = (rank_ + step) % size_;
      const Transfer& transfer = transfers_[peer];
      posts_.Post(peer, slot, transfer.send, transfer.send_bytes, false);
    }
    for (size_t i = 0; i < posts_.count(); ++i) posts_.Await(i, deadline_);
    posts_.Clear();
  }

  const int rank_;
  const int size_;
  const std::string name_;
  const absl::Duration timeout_;
  Posts posts_;

  // Of the calling thread.
  absl::Status dead_;
  absl::Duration deadline_;
  int64_t calls_ = 0;
  uint64_t exchanges_ = 0;  // names an exchange on the wire
  std::vector<Transfer> transfers_;
  std::vector<const void*> inputs_;
  std::vector<char> scratch_;
};

absl::Status CheckOptions(const GlooOptions& options) {
  const std::string group = absl::StrCat("gloo group '", options.prefix, "': ");
  if (options.size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, "size is ", options.size, ", expected at least 1"));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, "rank is ", options.rank, ", expected 0 to ", options.size - 1));
  }
  if (options.size > 1 && options.store == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, "no store, expected one for ", options.size, " ranks"));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        group, "timeout is ", absl::FormatDuration(options.timeout), ", expected above 0"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlooCommunicator>> GlooCommunicator::Connect(
    const GlooOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.size == 1) return std::make_unique<Gloo>(options, nullptr);
  ASSIGN_OR_RETURN(auto mesh, ConnectMesh(options));
  return std::make_unique<Gloo>(options, std::move(mesh));
}

}  // namespace stretto
