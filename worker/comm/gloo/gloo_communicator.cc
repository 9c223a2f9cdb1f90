// SPDX-License-Identifier: Apache-2.0

// Each collective is written as transfers to and from every peer (Exchange) plus arithmetic. A
// reduction receives every rank's part and adds in rank order, which is what makes its bits those
// of `local`. All calls run through RunTelling, which sets the deadline and turns an exception into
// an error that ends the group.
//
// gloo sends nothing before the peer has said that it receives. The sender's epoll thread reads
// that word, and waits for its turn on a core that computes. So receives are posted early: those of
// kPlaces pieces at once, and those of the next reduction before this call ends
// (docs/design/0094-receives-posted-ahead.md).

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
#include "worker/comm/gloo/receive_places.h"
#include "worker/comm/reduce.h"

namespace stretto {
namespace {

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
        places_(rank_, size_),
        bytes_(size_ + 1),
        posts_(std::move(mesh), options.rank, options.size, options.watch),
        transfers_(size_),
        inputs_(size_) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::Status Run(const Collective& collective) override {
    return RunTelling(collective, nullptr, [] {});
  }

  absl::Status RunTelling(const Collective& collective, const Collective* next,
                          absl::FunctionRef<void()> posted) override {
    RETURN_IF_ERROR(CheckCollective(collective, size_));
    if (next != nullptr) RETURN_IF_ERROR(CheckCollective(*next, size_));
    if (!posts_.aborted() && dead_.ok()) RETURN_IF_ERROR(CheckAnnounced(collective));
    ++calls_;
    if (posts_.aborted()) return Fail(collective.kind, "");
    if (!dead_.ok()) return dead_;
    deadline_ = Clock::Real().Monotonic() + timeout_;
    if (watch_ != nullptr) watch_->OnBegin();
    posted_.emplace(posted);
    now_ = std::exchange(next_, std::nullopt);
    if (!now_.has_value()) now_ = ReductionOf(collective, slot_);
    const uint64_t slot = slot_;
    slot_ += SlotsOf(collective, now_);
    if (next != nullptr) next_ = ReductionOf(*next, slot_);
    try {
      Carry(collective, slot);
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

  std::optional<Reduction> ReductionOf(const Collective& collective, uint64_t slot) const {
    if (collective.kind != CollectiveKind::kAllReduce &&
        collective.kind != CollectiveKind::kReduceScatter) {
      return std::nullopt;
    }
    return places_.ReductionOf(collective, slot);
  }

  // How many network steps, each with a slot, a collective takes. All ranks find the same number,
  // whether or not their calls announce the next one.
  static uint64_t SlotsOf(const Collective& collective, const std::optional<Reduction>& reduction) {
    if (reduction.has_value()) return reduction->pieces.count() + Gathers(*reduction);
    return collective.kind == CollectiveKind::kBroadcast ? ChainChunks(collective.in.bytes()) : 1;
  }

  static bool Gathers(const Reduction& reduction) {
    return reduction.call.kind == CollectiveKind::kAllReduce && !reduction.pieces.whole();
  }

  // Receives have been posted for the announced call.
  absl::Status CheckAnnounced(const Collective& found) const {
    if (!next_.has_value()) return absl::OkStatus();
    const Collective& expected = next_->call;
    if (found.kind == expected.kind && found.in.dtype == expected.in.dtype &&
        found.in.count() == expected.in.count()) {
      return absl::OkStatus();
    }
    const auto describe = [](const Collective& call) {
      return absl::StrCat(NameOf(call.kind), " of ", call.in.count(), " ", NameOf(call.in.dtype));
    };
    return absl::InvalidArgumentError(
        absl::StrCat("gloo group '", name_, "': found the call ", describe(found), ", expected ",
                     describe(expected), ", which the call before it has announced"));
  }

  // Throws gloo's exceptions. The transfers of a failed step stay posted until Fail has closed the
  // connections, so they point to nothing in a frame of ours. Those of the announced call, which
  // point into places_, stay posted until it ends or the group does.
  void Carry(const Collective& collective, uint64_t slot) {
    const TensorView &in = collective.in, &out = collective.out;
    switch (collective.kind) {
      case CollectiveKind::kAllReduce: {
        const Pieces& pieces = now_->pieces;
        ReduceParts(collective, At(in, pieces.PartOf(rank_).begin));
        if (Gathers(*now_)) {
          GatherParts(out, slot + pieces.count(), [&](int peer) { return pieces.PartOf(peer); });
        }
        return;
      }
      case CollectiveKind::kReduceScatter:
        return ReduceParts(collective, out.data);
      case CollectiveKind::kAllGather: {
        const auto part_of = [&](int peer) { return Pieces::Range{peer * in.count(), in.count()}; };
        void* mine = At(out, part_of(rank_).begin);
        if (in.bytes() > 0 && mine != in.data) {
          std::memcpy(mine, in.data, in.bytes());
        }
        return GatherParts(out, slot, part_of);
      }
      case CollectiveKind::kBroadcast:
        return Broadcast(in, collective.root, slot);
      case CollectiveKind::kBarrier:
        return Barrier(slot);
    }
  }

  // Every rank but the root receives from the one before it in the chain, and every rank but the
  // last sends each chunk on as soon as it has it.
  void Broadcast(const TensorView& tensor, int root, uint64_t slot) {
    if (size_ == 1) return;
    const int place = (rank_ - root + size_) % size_;
    const int before = (rank_ + size_ - 1) % size_, after = (rank_ + 1) % size_;
    const bool receives = place > 0 && tensor.bytes() > 0, sends = place < size_ - 1;
    const int64_t chunks = ChainChunks(tensor.bytes());
    const auto post = [&](int peer, int64_t chunk, bool receive) {
      const int64_t begin = tensor.bytes() * chunk / chunks;
      posts_.Post(peer, slot + chunk, static_cast<char*>(tensor.data) + begin,
                  tensor.bytes() * (chunk + 1) / chunks - begin, receive);
    };
    const size_t first = posts_.next();
    for (int64_t chunk = 0; receives && chunk < chunks; ++chunk) post(before, chunk, true);
    const size_t received = posts_.next();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (receives) Await(first + chunk);
      if (sends) post(after, chunk, false);
    }
    AwaitAll({received, posts_.next()});
    posts_.ClearBefore(posts_.next());
  }

  void Barrier(uint64_t slot) {
    // One byte to and from every peer, in memory that outlives this call's connections.
    for (size_t peer = 0; peer < transfers_.size(); ++peer) {
      transfers_[peer] = {&bytes_.back(), 1, &bytes_[peer], 1};
    }
    Exchange(slot);
  }

  // Waits for a transfer, and tells before the first one.
  void Await(size_t number) {
    if (posted_.has_value()) (*posted_)();
    posted_.reset();
    posts_.Await(number, deadline_);
  }
  void AwaitAll(const PostedRange& range) {
    for (size_t number = range.begin; number < range.end; ++number) Await(number);
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

  // Posts the receives of the announced call as far as slots are below `limit`.
  void PostAhead(uint64_t limit) {
    while (next_.has_value() && next_->received < next_->pieces.count() &&
           next_->slot + next_->received < limit) {
      places_.PostReceives(&*next_, &posts_);
    }
  }

  // Posts the transfers of the pieces before `limit` that are not posted yet. Receives come first,
  // because gloo would pass on that they are posted only behind the bytes of earlier sends.
  void PostPieces(Reduction* reduction, int64_t limit) {
    const Pieces& pieces = reduction->pieces;
    const int64_t end = std::min(pieces.count(), limit);
    while (reduction->received < end) places_.PostReceives(reduction, &posts_);
    for (int64_t& piece = reduction->sent; piece < end; ++piece) {
      const size_t first = posts_.next();
      ForEachPeer([&](int peer) {
        const Pieces::Range range = pieces.PieceOf(peer, piece);
        posts_.Post(peer, reduction->slot + piece, At(reduction->call.in, range.begin),
                    range.count * pieces.element_bytes(), false);
      });
      reduction->sends[piece % kPlaces] = {first, posts_.next()};
    }
  }

  // Every rank's part of what it brings, reduced over all ranks in rank order; ours goes to `out`.
  // Parts are cut into pieces, so that scratch memory does not grow with the tensor and one piece
  // is reduced while the next ones travel.
  void ReduceParts(const Collective& call, void* out) {
    const Pieces& pieces = now_->pieces;
    now_->call = call;  // an announced one has no data
    const int64_t first = pieces.PartOf(rank_).begin;
    std::optional<size_t> end;  // of this call's transfers
    for (int64_t number = 0; number < pieces.count(); ++number) {
      PostPieces(&*now_, number + kPlaces);
      if (now_->sent == pieces.count()) {
        if (!end.has_value()) end = posts_.next();
        if (!Gathers(*now_)) PostAhead(now_->slot + number + kPlaces);
      }
      AwaitAll(now_->receives[number % kPlaces]);
      AwaitAll(now_->sends[number % kPlaces]);
      const Pieces::Range range = pieces.PieceOf(rank_, number);
      for (int peer = 0; peer < size_; ++peer) {
        inputs_[peer] = peer == rank_ ? At(call.in, range.begin) : places_.At(*now_, number, peer);
      }
      void* reduced = static_cast<char*>(out) + (range.begin - first) * pieces.element_bytes();
      Reduce(call.in.dtype, call.op, inputs_, {&reduced, 1}, 0, range.count);
    }
    if (end.has_value()) posts_.ClearBefore(*end);
  }

  // Sends our part of `out` to all peers and receives theirs.
  template <class PartOf>
  void GatherParts(const TensorView& out, uint64_t slot, PartOf part_of) {
    const auto element_bytes = static_cast<int64_t>(SizeOf(out.dtype));
    const Pieces::Range mine = part_of(rank_);
    for (int peer = 0; peer < size_; ++peer) {
      const Pieces::Range part = part_of(peer);
      transfers_[peer] = {At(out, mine.begin), mine.count * element_bytes, At(out, part.begin),
                          part.count * element_bytes};
    }
    Exchange(slot);
  }

  // Does all of transfers_ (indexed by peer; our own is ignored) and waits for them.
  void Exchange(uint64_t slot) {
    if (size_ == 1) return;
    const size_t first = posts_.next();
    for (int peer = 0; peer < size_; ++peer) {
      const Transfer& transfer = transfers_[peer];
      posts_.Post(peer, slot, transfer.receive, transfer.receive_bytes, true);
    }
    ForEachPeer([&](int peer) {
      const Transfer& transfer = transfers_[peer];
      posts_.Post(peer, slot, transfer.send, transfer.send_bytes, false);
    });
    const PostedRange mine = {first, posts_.next()};
    PostAhead(slot + 1 + kPlaces);
    AwaitAll(mine);
    posts_.ClearBefore(mine.end);
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
  // What transfers point into outlives them.
  ReceivePlaces places_;
  std::vector<char> bytes_;  // of barriers
  Posts posts_;

  // Of the calling thread.
  absl::Status dead_;
  absl::Duration deadline_;
  int64_t calls_ = 0;
  std::optional<absl::FunctionRef<void()>> posted_;  // of the call, until it was called
  uint64_t slot_ = 0;                                // of the next call's first network step
  std::optional<Reduction> now_, next_;              // this call, and the one that it announces
  std::vector<Transfer> transfers_;
  std::vector<const void*> inputs_;
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
