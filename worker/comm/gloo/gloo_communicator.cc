// SPDX-License-Identifier: Apache-2.0

// Each collective is written as transfers to and from every peer (Exchange) plus arithmetic. A
// reduction receives every rank's part and adds in rank order, which is what makes its bits those
// of `local`. All calls run through Run, which sets the deadline and turns an exception into an
// error that ends the group.

#include "worker/comm/gloo/gloo_communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <iterator>
#include <optional>
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

// Up to here a second network step costs more than sending everything to everyone. Two ranks send
// the same bytes either way, so they never take a second step, before which the wire would be idle
// until both threads have had their turn on a core that computes.
constexpr int64_t kOneStepBytes = 16 << 10;

// Two pieces of a reduction, from every rank. Larger pieces do not travel faster.
constexpr int64_t kScratchBytes = 4 << 20;

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
        watch_(options.watch),
        posts_(std::move(mesh), options.rank, options.size, options.watch),
        transfers_(size_),
        inputs_(size_),
        scratch_(size_ > 1 ? std::max<int64_t>(kScratchBytes, int64_t{32} * size_) : 0) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status Run(const Collective& collective) override {
    return RunTelling(collective, [] {});
  }

  absl::Status RunTelling(const Collective& collective, absl::FunctionRef<void()> posted) override {
    RETURN_IF_ERROR(CheckCollective(collective, size_));
    ++calls_;
    if (posts_.aborted()) return Fail(collective.kind, "");
    if (!dead_.ok()) return dead_;
    deadline_ = Clock::Real().Monotonic() + timeout_;
    if (watch_ != nullptr) watch_->OnBegin();
    posted_.emplace(posted);
    try {
      Carry(collective);
    } catch (const std::exception& error) {
      return Fail(collective.kind, TextOf(error));
    }
    if (watch_ != nullptr) watch_->OnEnd();
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
    if (size_ == 2 || tensor.bytes() <= kOneStepBytes) {
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

  // Every rank but the root receives from the one before it in the chain, and every rank but the
  // last sends each chunk on as soon as it has it.
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
      if (receives) Await(chunk);
      if (sends) post(after, chunk, false);
    }
    for (size_t i = received; i < posts_.count(); ++i) Await(i);
    posts_.Clear();
    exchanges_ += chunks;
  }

  void Barrier() {
    if (size_ == 1) return;
    // One byte to and from every peer, in memory that outlives this call's connections.
    for (size_t peer = 0; peer < transfers_.size(); ++peer) {
      transfers_[peer] = {&scratch_.back(), 1, &scratch_[peer], 1};
    }
    Exchange();
  }

  // Waits for a transfer, and tells before the first one.
  void Await(size_t index) {
    if (posted_.has_value()) (*posted_)();
    posted_.reset();
    posts_.Await(index, deadline_);
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

  // Every rank's part of `in`, reduced over all ranks in rank order; ours goes to `out`. Parts are
  // cut into pieces, so that scratch memory does not grow with the tensor and one piece is reduced
  // while the next travels. Each piece has a half of the scratch memory, in turn.
  template <class PartOf>
  void ReduceParts(const TensorView& in, ReduceOp op, void* out, PartOf part_of) {
    const auto element_bytes = static_cast<int64_t>(SizeOf(in.dtype));
    int64_t longest = 0;
    for (int peer = 0; peer < size_; ++peer) longest = std::max(longest, part_of(peer).count);
    const int64_t half = std::ssize(scratch_) / 2;
    const int64_t piece = size_ > 1 ? half / (size_ * element_bytes) : longest;
    const auto piece_of = [&](int peer, int64_t number) {
      const Part part = part_of(peer);
      const int64_t begin = std::min(part.count, number * piece);
      return Part{part.begin + begin, std::min(piece, part.count - begin)};
    };
    const auto received = [&](int peer, int64_t number) {
      return scratch_.data() + number % 2 * half + peer * piece * element_bytes;
    };
    const auto post = [&](int64_t number) {
      const uint64_t slot = ++exchanges_;
      const int64_t bytes = piece_of(rank_, number).count * element_bytes;
      for (int peer = 0; peer < size_; ++peer) {
        posts_.Post(peer, slot, received(peer, number), bytes, true);
      }
      ForEachPeer([&](int peer) {
        const Part part = piece_of(peer, number);
        posts_.Post(peer, slot, At(in, part.begin), part.count * element_bytes, false);
      });
      return posts_.count();
    };
    const int64_t first = part_of(rank_).begin;
    size_t awaited = 0, posted = post(0);
    for (int64_t number = 0; number * piece < longest; ++number) {
      const size_t next = (number + 1) * piece < longest ? post(number + 1) : posted;
      for (; awaited < posted; ++awaited) Await(awaited);
      posted = next;
      const Part mine = piece_of(rank_, number);
      for (int peer = 0; peer < size_; ++peer) {
        inputs_[peer] = peer == rank_ ? At(in, mine.begin) : received(peer, number);
      }
      void* reduced = static_cast<char*>(out) + (mine.begin - first) * element_bytes;
      Reduce(in.dtype, op, inputs_, {&reduced, 1}, 0, mine.count);
    }
    posts_.Clear();
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
    ForEachPeer([&](int peer) {
      const Transfer& transfer = transfers_[peer];
      posts_.Post(peer, slot, transfer.send, transfer.send_bytes, false);
    });
    for (size_t i = 0; i < posts_.count(); ++i) Await(i);
    posts_.Clear();
  }

  // Begins with the next neighbour, so that no rank is everybody's first.
  template <class Visit>
  void ForEachPeer(const Visit& visit) const {
    for (int step = 1; step < size_; ++step) visit((rank_ + step) % size_);
  }

  const int rank_;
  const int size_;
  const std::string name_;
  const absl::Duration timeout_;
  CallWatch* const watch_;  // may be null
  Posts posts_;

  // Of the calling thread.
  absl::Status dead_;
  absl::Duration deadline_;
  int64_t calls_ = 0;
  std::optional<absl::FunctionRef<void()>> posted_;  // of the call, until it was called
  uint64_t exchanges_ = 0;                           // names an exchange on the wire
  std::vector<Transfer> transfers_;
  std::vector<const void*> inputs_;
  std::vector<char> scratch_;  // of a fixed size; none for a group of one
};

}  // namespace

absl::StatusOr<std::unique_ptr<GlooCommunicator>> GlooCommunicator::Connect(
    const GlooOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.size == 1) return std::make_unique<Gloo>(options, nullptr);
  ASSIGN_OR_RETURN(auto mesh, ConnectMesh(options));
  return std::make_unique<Gloo>(options, std::move(mesh));
}

}  // namespace stretto
