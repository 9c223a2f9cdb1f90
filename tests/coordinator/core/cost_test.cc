// SPDX-License-Identifier: Apache-2.0

// The work of a call, counted in allocations, must not grow with the cluster or the queue.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/queue_view.h"

namespace {
thread_local int64_t allocations = 0;
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  void* memory = std::malloc(size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace stretto::coordinator {
namespace {

template <class F>
int64_t AllocationsOf(F call) {
  const int64_t before = allocations;
  call();
  return allocations - before;
}

// Workers of one slot each, all of them busy, and jobs that wait for one.
Core Cluster(int workers, int waiting) {
  Core core;
  for (int i = 0; i < workers; ++i) {
    WorkerRegistered event;
    event.id = absl::StrCat("worker-with-a-long-name-", 10'000 + i);
    event.incarnation = "i1";
    event.devices = {{.slot = 0, .kind = 1, .description = ""}};
    event.session = i + 1;
    EXPECT_TRUE(core.Apply(event, {}).status.ok());
  }
  for (int i = 0; i < workers + waiting; ++i) {
    CreateJob event;
    event.job_id = event.uid = absl::StrCat("job-with-a-long-name-", 10'000 + i);
    event.device_kind = 1;
    EXPECT_TRUE(core.Apply(event, {}).status.ok());
  }
  return core;
}

TEST(CostTest, OfAPageOfWorkersIsIndependentOfTheCluster) {
  const auto page = [](const Core& core) {
    int found = 0;
    for (const auto& [id, worker] : core.workers()) {
      EXPECT_EQ(core.FreeSlots(id), 0);
      EXPECT_EQ(core.JobsOn(id).size(), 1u);
      if (++found == 10) break;
    }
  };
  const Core small = Cluster(20, 0), large = Cluster(400, 0);
  EXPECT_EQ(AllocationsOf([&] { page(small); }), AllocationsOf([&] { page(large); }));
}

TEST(CostTest, OfAPageOfJobsIsIndependentOfTheQueue) {
  const auto page = [](const Core& core) {
    QueueView view(core);
    for (const JobRecord* job : core.JobsBefore(INT64_MAX, 10)) {
      EXPECT_EQ(view.Shown(*job).FindCondition("Scheduled")->reason, "BehindEarlierJob");
    }
  };
  const Core small = Cluster(5, 20), large = Cluster(5, 2000);
  EXPECT_EQ(AllocationsOf([&] { page(small); }), AllocationsOf([&] { page(large); }));
}

TEST(CostTest, OfATickAndOfASubmissionIsIndependentOfTheQueue) {
  Core small = Cluster(5, 20), large = Cluster(5, 2000);
  const auto tick = [](Core& core) { EXPECT_TRUE(core.Apply(Tick{}, {}).persist.empty()); };
  EXPECT_EQ(AllocationsOf([&] { tick(small); }), AllocationsOf([&] { tick(large); }));
  const auto submit = [](Core& core) {
    CreateJob event;
    event.job_id = event.uid = "one-more-job-with-a-long-name";
    event.device_kind = 1;
    EXPECT_EQ(core.Apply(event, {}).persist.size(), 1u);
  };
  // A vector of numbers may grow.
  EXPECT_NEAR(static_cast<double>(AllocationsOf([&] { submit(small); })),
              static_cast<double>(AllocationsOf([&] { submit(large); })), 1);
}

}  // namespace
}  // namespace stretto::coordinator
