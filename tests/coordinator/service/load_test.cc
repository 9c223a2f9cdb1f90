// SPDX-License-Identifier: Apache-2.0

// A queue that is long: submissions stay fast, and the coordinator stays idle while nothing
// happens. STRETTO_LOAD_JOBS=10000 measures what docs/BENCHMARKS.md shows.

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "tests/coordinator/service/harness.h"

namespace stretto::service {
namespace {

absl::Duration CpuTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

class LoadTest : public ServiceTest {
 protected:
  LoadTest() {
    std::string name = (std::filesystem::temp_directory_path() / "stretto-load-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    server_.reset();
    store_ = *coordinator::OpenSqliteStore(folder_ + "/jobs.db");
    Start();
  }
  ~LoadTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string folder_;
};

TEST_F(LoadTest, ALongQueueSlowsNobody) {
  const char* text = std::getenv("STRETTO_LOAD_JOBS");
  int jobs = 500;
  if (text != nullptr) {
    ASSERT_TRUE(absl::SimpleAtoi(text, &jobs));
  }
  FakeWorker worker(*workers_, "w0");
  worker.Register();
  std::vector<absl::Duration> took;
  for (int i = 0; i < jobs; ++i) {
    const absl::Time start = absl::Now();
    MustCreate(absl::StrCat("job-", i));
    took.push_back(absl::Now() - start);
  }
  std::vector<absl::Duration> last(took.end() - std::min<int64_t>(1000, jobs), took.end());
  std::sort(last.begin(), last.end());
  const absl::Duration p50 = last[last.size() / 2], p99 = last[last.size() * 99 / 100];
  const absl::Duration cpu = CpuTime();
  std::this_thread::sleep_for(std::chrono::seconds(text != nullptr ? 10 : 1));
  const double idle = absl::FDivDuration(CpuTime() - cpu, absl::Seconds(text != nullptr ? 10 : 1));
  std::printf("queue of %d jobs: submit p50 %s, p99 %s; idle %.2f %% of a core\n", jobs,
              absl::FormatDuration(p50).c_str(), absl::FormatDuration(p99).c_str(), 100 * idle);
  // Bounds for a machine that is busy with something else.
  EXPECT_LT(p99, absl::Milliseconds(500));
  EXPECT_LT(idle, 0.5);
}

}  // namespace
}  // namespace stretto::service
