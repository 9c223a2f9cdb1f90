// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/calibrate/settled_part.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/comm/local/local.h"

namespace stretto::bench {
namespace {

const Repeats kSettled = {.median = 1, .spread = 0.02, .settled = true};
const Repeats kUnsettled = {.median = 1, .spread = 0.34};

// What each of the ranks gets.
std::vector<absl::Status> Expected(const std::vector<SettledPart>& parts) {
  std::vector<std::unique_ptr<Communicator>> group =
      LocalGroup::Create(static_cast<int>(parts.size()));
  std::vector<absl::Status> found(parts.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < parts.size(); ++rank)
    threads.emplace_back([&, rank] { found[rank] = parts[rank].ExpectMost(*group[rank]); });
  for (std::thread& thread : threads) thread.join();
  return found;
}

SettledPart PartOf(double unsettled) {
  SettledPart part;
  part.Add("tp all_reduce 64", kSettled, 100 - unsettled);
  part.Add("tp all_reduce_max 8", kUnsettled, unsettled);
  return part;
}

TEST(SettledPartTest, ASmallPartNeedNotSettle) {
  for (const absl::Status& status : Expected({PartOf(3), PartOf(0)}))
    EXPECT_EQ(status, absl::OkStatus());
}

TEST(SettledPartTest, ALargerPartIsAnErrorOnAllRanks) {
  const std::vector<absl::Status> found = Expected({PartOf(1), PartOf(4)});

  EXPECT_TRUE(IsUnsettled(found[0]) && IsUnsettled(found[1]));
  EXPECT_EQ(found[0].message(),
            "found repeats on another rank that differ; calibrate on an idle machine");
  EXPECT_EQ(found[1].message(),
            "found repeats of which the shortest third spread by more than 10 % within 100 rounds, "
            "for 4.0 % of the communication of a step, expected for at most 3 %: tp all_reduce_max "
            "8 (34.0 %); calibrate on an idle machine");
}

}  // namespace
}  // namespace stretto::bench
