// SPDX-License-Identifier: Apache-2.0

// The work of a call, counted in allocations, must not grow with the cluster or the queue; counted
// in bytes, not with what jobs have stored.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"
#include "coordinator/core/queue_view.h"

namespace {
thread_local int64_t allocations = 0, allocated_bytes = 0;
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  allocated_bytes += static_cast<int64_t>(size);
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

template <class F>
int64_t BytesOf(F call) {
  const int64_t before = allocated_bytes;
  call();
  return allocated_bytes - before;
}

// Of a job of 2,000 steps or more. What a call may take for one job is a tenth of it.
constexpr int64_t kSummaryBytes = 160'000, kBytesOfAJob = 16'000;

// Workers of one slot each, all of them busy, and jobs that wait for one.
Core Cluster(int workers, int waiting, int projects = 0) {
  CoreOptions options;
  for (int i = 0; i < projects; ++i)
    options.quotas.emplace(absl::StrCat("project-with-a-long-name-", i), Quota{.devices = 1});
  if (projects > 0) options.quotas["default"];
  Core core(options);
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
    if (i >= workers) event.priority = -i % 7;
    // Every project has a job that runs, and so all that its quota allows.
    if (projects > 0) event.project = absl::StrCat("project-with-a-long-name-", i % projects);
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

TEST(CostTest, OfAPageOfEndedJobsHasNoCopyOfTheirSummaries) {
  constexpr int kJobs = 100;
  Snapshot snapshot;
  for (int i = 0; i < kJobs; ++i) {
    JobRecord& job = snapshot.jobs.emplace_back();
    job.id = job.uid = absl::StrCat("job-with-a-long-name-", i);
    job.number = i + 1;
    job.state = JobState::kSucceeded;
    job.end_time = absl::UnixEpoch();
    job.summary = std::string(kSummaryBytes, 's');
  }
  const Core core = *Core::Restore(std::move(snapshot), {}, absl::UnixEpoch());
  const int64_t bytes = BytesOf([&] {
    std::vector<JobRecord> page;
    QueueView view(core);
    for (const JobRecord* job : core.JobsBefore(INT64_MAX, kJobs)) page.push_back(view.Shown(*job));
    EXPECT_EQ(page.back().summary.str().size(), static_cast<size_t>(kSummaryBytes));
  });
  EXPECT_LT(bytes, kJobs * kBytesOfAJob);
}

TEST(CostTest, OfAReportOfARestartedJobHasNoCopyOfItsSummary) {
  const std::string id = "job-with-a-long-name";
  Core core;
  WorkerRegistered worker;
  worker.id = "w";
  worker.incarnation = "i1";
  worker.devices = {{.slot = 0, .kind = 1, .description = ""}};
  worker.session = 1;
  ASSERT_TRUE(core.Apply(worker, {}).status.ok());
  CreateJob create;
  create.job_id = create.uid = id;
  create.device_kind = 1;
  create.total_steps = 9;
  create.restart = RestartPolicy{.max = 3, .backoff = {}, .on = {RestartCause::kCrash}};
  ASSERT_TRUE(core.Apply(create, {}).status.ok());
  const auto report = [&](int64_t sequence, auto what) {
    RankReported event;
    event.worker = "w";
    event.session = 1;
    event.job_uid = id;
    event.epoch = core.FindJob(id)->epoch;
    event.sequence = sequence;
    event.report = std::move(what);
    return core.Apply(event, {});
  };
  ASSERT_TRUE(report(1, RankPrepared{}).status.ok());
  RankExited crashed;
  crashed.exit_code = 1;
  crashed.reason = NameOf(ExitReason::kCrashed);
  ASSERT_TRUE(report(2, crashed).summaries.contains(id));
  core.AttachSummary(id, std::string(kSummaryBytes, 's'));
  ASSERT_TRUE(core.Apply(Tick{}, {}).status.ok());
  ASSERT_EQ(core.FindJob(id)->attempt, 2);
  ASSERT_TRUE(report(1, RankPrepared{}).status.ok());

  const int64_t bytes =
      BytesOf([&] { EXPECT_TRUE(report(2, StepDone{.step = 1, .end_time = {}}).status.ok()); });
  EXPECT_EQ(core.FindJob(id)->ranks[0].last_step, 1);
  EXPECT_EQ(core.FindJob(id)->summary.str().size(), static_cast<size_t>(kSummaryBytes));
  EXPECT_LT(bytes, kBytesOfAJob);
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

// No slot has changed since the last one.
TEST(CostTest, OfASubmissionAndItsAnswerIsIndependentOfTheCluster) {
  Core small = Cluster(20, 20), large = Cluster(400, 20);
  const auto submit = [](Core& core) {
    CreateJob event;
    event.job_id = event.uid = "one-more-job-with-a-long-name";
    event.device_kind = 1;
    EXPECT_EQ(core.Apply(event, {}).persist.size(), 1u);
    const JobRecord shown = QueueView(core).Shown(*core.FindJob(event.job_id));
    EXPECT_EQ(shown.FindCondition("Scheduled")->reason, "BehindEarlierJob");
  };
  // Arrays grow by halves; a look at every worker takes several hundred.
  EXPECT_LT(AllocationsOf([&] { submit(large); }) - AllocationsOf([&] { submit(small); }), 20);
}

TEST(CostTest, OfProjectsOverTheirQuotaIsIndependentOfTheQueue) {
  Core small = Cluster(8, 20, 4), large = Cluster(8, 2000, 4);
  ASSERT_EQ(large.FreeSlots("worker-with-a-long-name-10007"), 1);  // 4 projects use one slot each
  const auto tick = [](Core& core) { EXPECT_TRUE(core.Apply(Tick{}, {}).persist.empty()); };
  EXPECT_EQ(AllocationsOf([&] { tick(small); }), AllocationsOf([&] { tick(large); }));
}

// Runs that lost a worker and can go nowhere are looked at with every tick.
TEST(CostTest, OfALostRunIsIndependentOfTheCluster) {
  const auto cluster = [](int lost) {
    constexpr int kWorkers = 200;
    Core core;
    const auto at = [](int64_t seconds) {
      return Moment{.wall = absl::FromUnixSeconds(seconds), .steady = absl::Seconds(seconds)};
    };
    for (int i = 0; i < kWorkers; ++i) {
      WorkerRegistered event;
      event.id = absl::StrCat("worker-with-a-long-name-", 10'000 + i);
      event.incarnation = "i1";
      event.devices = {{.slot = 0, .kind = 1, .description = ""}};
      event.session = i + 1;
      EXPECT_TRUE(core.Apply(event, at(0)).status.ok());
    }
    for (int i = 0; i < kWorkers / 2; ++i) {
      CreateJob event;
      event.job_id = event.uid = absl::StrCat("job-with-a-long-name-", 10'000 + i);
      event.gang.stages = {{.blocks = 2}};
      event.device_kind = 1;
      event.restart = RestartPolicy{.max = 9, .backoff = {}, .on = {RestartCause::kNodeLoss}};
      EXPECT_TRUE(core.Apply(event, at(0)).status.ok());
    }
    for (int64_t second = 1; second <= 60; ++second) {
      for (int i = 0; i < kWorkers; ++i) {
        if (i % 2 == 1 && i / 2 < lost) continue;
        const WorkerHeartbeat beat{absl::StrCat("worker-with-a-long-name-", 10'000 + i), i + 1};
        EXPECT_TRUE(core.Apply(beat, at(second)).status.ok());
      }
      EXPECT_TRUE(core.Apply(Tick{}, at(second)).status.ok());
    }
    return AllocationsOf([&] { EXPECT_TRUE(core.Apply(Tick{}, at(61)).persist.empty()); });
  };
  const int64_t few = cluster(10), many = cluster(60);
  EXPECT_LT((many - few) / 50, 60);  // a look at every worker takes several hundred
}

TEST(CostTest, OfBackfillHasABound) {
  // A slot stays free that every job is tried on, because none of them fits there.
  const auto cluster = [](int waiting) {
    Core core;
    const auto worker = [&](const std::string& id, int32_t slots) {
      WorkerRegistered event;
      event.id = id;
      event.incarnation = "i1";
      for (int32_t slot = 0; slot < slots; ++slot)
        event.devices.push_back({.slot = slot, .kind = 1, .description = ""});
      event.session = slots;
      EXPECT_TRUE(core.Apply(event, {}).status.ok());
    };
    const auto submit = [&](const std::string& id, int32_t size) {
      CreateJob job;
      job.job_id = job.uid = id;
      job.gang.stages = {{.blocks = 1, .size = size}};
      job.device_kind = 1;
      EXPECT_TRUE(core.Apply(job, {}).status.ok());
    };
    worker("has-two-slots", 2);
    submit("holds-one-of-them", 1);
    worker("is-free", 1);
    for (int i = 0; i < waiting; ++i) submit(absl::StrCat("job-with-a-long-name-", 50'000 + i), 2);
    return core;
  };
  Core some = cluster(600), many = cluster(6000);
  const auto tick = [](Core& core) { EXPECT_TRUE(core.Apply(Tick{}, {}).persist.empty()); };
  // A new cordon lets it look again.
  const auto look = [&](Core& core) {
    EXPECT_TRUE(core.Apply(CordonWorker{"is-free", "by request", /*drain=*/false}, {}).status.ok());
    return AllocationsOf(
        [&] { EXPECT_TRUE(core.Apply(UncordonWorker{"is-free"}, {}).status.ok()); });
  };
  EXPECT_EQ(look(some), look(many));
  // While nothing changes, a tick does not look at all.
  tick(many);
  EXPECT_EQ(AllocationsOf([&] { tick(many); }), 0);
}

// No job can start without a worker, so nobody looks at each of them.
TEST(CostTest, OfASubmissionWithoutWorkersIsIndependentOfTheQueue) {
  const auto submit = [](Core& core, int number) {
    CreateJob event;
    event.job_id = event.uid = absl::StrCat("job-with-a-long-name-", 50'000 + number);
    event.device_kind = 1;
    EXPECT_TRUE(core.Apply(event, {}).status.ok());
    const JobRecord shown = QueueView(core).Shown(*core.FindJob(event.job_id));
    EXPECT_EQ(shown.FindCondition("Scheduled")->reason, "NoWorkers");
  };
  Core some, many;
  for (int i = 0; i < 20; ++i) submit(some, i);
  for (int i = 0; i < 2000; ++i) submit(many, i);
  EXPECT_NEAR(static_cast<double>(AllocationsOf([&] { submit(some, 9999); })),
              static_cast<double>(AllocationsOf([&] { submit(many, 9999); })), 1);
}

// A job that starts again is tried in each of its layouts, on the workers that remain.
TEST(CostTest, OfLayoutsIsIndependentOfTheCluster) {
  JobRecord job;
  job.attempt = 1;
  job.device_kind = 1;
  job.gang.stages = {{.blocks = 1000}};
  job.fallbacks = {{.stages = {{.blocks = 500}}}, {.stages = {{.blocks = 2}}}};
  const auto ask = [&job](const Core& core) { EXPECT_EQ(core.Queued(job).gang.ranks(), 2); };
  const Core small = Cluster(20, 0), large = Cluster(400, 0);
  ask(small);  // what fits is found out once
  ask(large);
  EXPECT_EQ(AllocationsOf([&] { ask(small); }), AllocationsOf([&] { ask(large); }));
}

}  // namespace
}  // namespace stretto::coordinator
