// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/work_together.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/worker/trainer/agreement/ranks.h"

namespace stretto::trainer {
namespace {

// Counts the calls of a rank.
class Counted final : public Communicator {
 public:
  explicit Counted(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  absl::Status Run(const Collective& collective) override {
    const absl::Status status = inner_.Run(collective);
    ++calls_;
    calls_.notify_all();
    return status;
  }
  void Abort() override { inner_.Abort(); }
  void AwaitCalls(int calls) {
    for (int now = 0; (now = calls_.load()) < calls;) calls_.wait(now);
  }

 private:
  Communicator& inner_;
  std::atomic<int> calls_{0};
};

// By rank.
std::vector<absl::Status> Work(const std::vector<std::function<absl::Status(Counted&)>>& works) {
  return OnRanks(works.size(), [&](size_t rank, Communicator& control) {
    Counted counted(control);
    return WorkTogether(
        counted, [&] { return works[rank](counted); }, absl::Milliseconds(1));
  });
}

absl::Status Nothing(Counted&) { return absl::OkStatus(); }

TEST(WorkTogetherTest, ARankThatWorksLongGivesSignsOfLife) {
  // Its work ends only when the ranks have exchanged three signs.
  const std::vector<absl::Status> found = Work({Nothing, [](Counted& control) {
                                                  control.AwaitCalls(3);
                                                  return absl::OkStatus();
                                                }});
  EXPECT_TRUE(found[0].ok()) << found[0];
  EXPECT_TRUE(found[1].ok()) << found[1];
}

TEST(WorkTogetherTest, EachRankGetsTheStatusOfItsOwnWork) {
  const std::vector<absl::Status> found =
      Work({Nothing, [](Counted&) { return absl::DataLossError("cut off"); }});
  EXPECT_TRUE(found[0].ok()) << found[0];
  EXPECT_EQ(found[1], absl::DataLossError("cut off"));
}

TEST(WorkTogetherTest, ALostPeerIsAnError) {
  const std::vector<absl::Status> found = Work({Nothing, [](Counted& control) {
                                                  control.Abort();
                                                  return absl::OkStatus();
                                                }});
  EXPECT_EQ(found[0].code(), absl::StatusCode::kAborted);
}

TEST(WorkTogetherTest, OneRankWorksAlone) {
  EXPECT_EQ(Work({[](Counted&) { return absl::DataLossError("cut off"); }})[0],
            absl::DataLossError("cut off"));
}

}  // namespace
}  // namespace stretto::trainer
