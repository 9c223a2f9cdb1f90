// SPDX-License-Identifier: Apache-2.0

// Ranks are threads of one process that meet in a Group. Everybody posts its call and waits at the
// first gate until all have posted; then each rank computes its part directly on the others'
// buffers; the second gate keeps buffers alive until all are done.

#include "worker/comm/local/local.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/mutex.h"
#include "proto/base/status_macros.h"
#include "worker/comm/reduce.h"

namespace stretto {
namespace {

// Whether two ranks describe the same collective.
bool Match(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.op == b.op && a.in.dtype == b.in.dtype &&
         a.in.count() == b.in.count() && a.root == b.root;
}

std::string Describe(const Collective& call) {
  std::string text = NameOf(call.kind);
  if (call.kind == CollectiveKind::kBarrier) return text;
  absl::StrAppend(&text, "(", call.in.count(), " ", NameOf(call.in.dtype));
  if (call.info().rooted) absl::StrAppend(&text, ", root ", call.root);
  if (call.op == ReduceOp::kMax) absl::StrAppend(&text, ", max");
  return absl::StrCat(text, ")");
}

// A call passes two gates. At the first, ranks wait until every call is posted, and may be turned
// back by Abort or a peer that left. Then all of them read each other's buffers, and no one may
// leave before the last is done: the second gate opens without fail, since only arithmetic is
// before it.
class Group {
 public:
  explicit Group(int size) : size_(size), calls_(size), inputs_(size), outputs_(size) {}

  int size() const { return size_; }
  const Collective& call(int rank) const { return calls_[rank]; }
  std::span<const void* const> inputs() const { return inputs_; }
  std::span<void* const> outputs() const { return outputs_; }

  absl::Status Enter(int rank, const Collective& call) {
    const MutexLock lock(mu_);
    if (Broken()) return BrokenStatus(rank, call);
    calls_[rank] = call;
    inputs_[rank] = call.in.data;
    outputs_[rank] = call.out.data;
    const uint64_t round = entered_rounds_;
    if (++entered_ == size_) {
      entered_ = 0;
      round_status_ = CheckCallsMatch();
      ++entered_rounds_;
      changed_.NotifyAll();
      return round_status_;
    }
    changed_.Wait(mu_, [&]() REQUIRES(mu_) { return entered_rounds_ != round || Broken(); });
    // Nobody overwrites the status of this round before all ranks have entered the next.
    return entered_rounds_ != round ? round_status_ : BrokenStatus(rank, call);
  }

  void Leave() {
    const MutexLock lock(mu_);
    const uint64_t round = left_rounds_;
    if (++left_ == size_) {
      left_ = 0;
      ++left_rounds_;
      changed_.NotifyAll();
      return;
    }
    changed_.Wait(mu_, [&]() REQUIRES(mu_) { return left_rounds_ != round; });
  }

  void Abort(int rank) {
    const MutexLock lock(mu_);
    if (aborted_by_ < 0) aborted_by_ = rank;
    changed_.NotifyAll();
  }

  void Quit(int rank) {
    const MutexLock lock(mu_);
    if (quit_ < 0) quit_ = rank;
    changed_.NotifyAll();
  }

 private:
  bool Broken() const REQUIRES(mu_) { return aborted_by_ >= 0 || quit_ >= 0; }

  absl::Status BrokenStatus(int rank, const Collective& call) const REQUIRES(mu_) {
    const std::string what =
        absl::StrCat(Describe(call), " on rank ", rank, " of ", size_, " (local): ");
    if (aborted_by_ >= 0) {
      return absl::AbortedError(absl::StrCat(what, "aborted by rank ", aborted_by_));
    }
    return absl::UnavailableError(absl::StrCat(what, "peer rank ", quit_, " left the group"));
  }

  absl::Status CheckCallsMatch() const {
    for (int rank = 1; rank < size_; ++rank) {
      if (Match(call(rank), call(0))) continue;
      return absl::InvalidArgumentError(absl::StrCat("local group of ", size_, ": rank ", rank,
                                                     " calls ", Describe(call(rank)), ", expected ",
                                                     Describe(call(0)), " as rank 0"));
    }
    return absl::OkStatus();
  }

  const int size_;

  Mutex mu_;
  CondVar changed_;
  int entered_ GUARDED_BY(mu_) = 0;
  uint64_t entered_rounds_ GUARDED_BY(mu_) = 0;
  int left_ GUARDED_BY(mu_) = 0;
  uint64_t left_rounds_ GUARDED_BY(mu_) = 0;
  absl::Status round_status_ GUARDED_BY(mu_);
  int aborted_by_ GUARDED_BY(mu_) = -1;
  int quit_ GUARDED_BY(mu_) = -1;
  // Written under mu_ before the first gate, read by all ranks between the gates.
  std::vector<Collective> calls_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

class LocalCommunicator final : public Communicator {
 public:
  // The state is shared: ranks leave in any order.
  LocalCommunicator(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank) {}
  ~LocalCommunicator() override { group_->Quit(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  absl::Status Run(const Collective& collective) override {
    RETURN_IF_ERROR(CheckCollective(collective, size()));
    RETURN_IF_ERROR(group_->Enter(rank_, collective));
    Compute(collective);
    group_->Leave();
    return absl::OkStatus();
  }

  void Abort() override { group_->Abort(rank_); }

 private:
  // This rank's share of the work, between the gates.
  void Compute(const Collective& collective) {
    const TensorView &in = collective.in, &out = collective.out;
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        // Each rank reduces a part, for all of them.
        Reduce(in.dtype, collective.op, group_->inputs(), group_->outputs(),
               PartBegin(in.count(), rank_, size()), PartBegin(in.count(), rank_ + 1, size()));
        return;
      case CollectiveKind::kReduceScatter: {
        // Reduce writes where it reads: `out` is moved so that its first element is our part.
        const int64_t begin = rank_ * out.count();
        void* shifted = static_cast<char*>(out.data) - rank_ * out.bytes();
        Reduce(in.dtype, collective.op, group_->inputs(), {&shifted, 1}, begin,
               begin + out.count());
        return;
      }
      case CollectiveKind::kAllGather:
        for (int peer = 0; peer < size(); ++peer) {
          Copy(static_cast<char*>(out.data) + peer * in.bytes(), group_->call(peer).in.data,
               in.bytes());
        }
        return;
      case CollectiveKind::kBroadcast:
        Copy(out.data, group_->call(collective.root).in.data, in.bytes());
        return;
      case CollectiveKind::kBarrier:
        return;
    }
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> LocalGroup::Create(int size) {
  STRETTO_CHECK(size >= 1);
  auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<LocalCommunicator>(group, rank));
  }
  return communicators;
}

}  // namespace stretto
