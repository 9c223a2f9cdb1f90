// SPDX-License-Identifier: Apache-2.0

// A hostile user who may write under the data root and the checkpoint root, and swaps a folder of a
// job with a symbolic link while the job prepares, trains and saves.

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/hostile/hostile_test.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using v1alpha1::Job;

// Exchanges two names as fast as it can, until it ends. It rests for a millisecond after each
// kSwaps, where both are as they were: who looks then finds nothing wrong.
class Swapper {
 public:
  Swapper(std::string one, std::string other)
      : one_(std::move(one)), other_(std::move(other)), thread_([this] {
          while (!ended_) {
            const long code = syscall(SYS_renameat2, AT_FDCWD, one_.c_str(), AT_FDCWD,
                                      other_.c_str(), RENAME_EXCHANGE);
            if (code == 0 && ++swaps_ % kSwaps == 0) absl::SleepFor(absl::Milliseconds(1));
          }
        }) {}
  ~Swapper() {
    ended_ = true;
    thread_.join();
  }
  int64_t swaps() const { return swaps_; }

 private:
  static constexpr int64_t kSwaps = 1024;
  const std::string one_, other_;
  std::atomic<bool> ended_{false};
  std::atomic<int64_t> swaps_{0};
  std::thread thread_;
};

class PathSwap : public HostileTest {
 protected:
  // A folder beside the roots, with the files of the data set "text", on which nobody may lay
  // hands.
  PathSwap() : outside_(cluster_.Path("outside")) {
    fs::remove_all(outside_);
    fs::create_directory(outside_);
    CopyText(outside_);
    chmod(outside_.c_str(), 0777);
    EXPECT_GE(inotify_add_watch(watch_.get(), outside_.c_str(),
                                IN_OPEN | IN_CREATE | IN_MOVED_TO | IN_DELETE),
              0);
    cluster_.StartWorker("node-b", 1);
  }
  void TearDown() override {
    cluster_.StopWorker("node-b");  // before a missed row makes a new cluster
    HostileTest::TearDown();
  }

  void CopyText(const std::string& folder) {
    for (const char* file : {"text.idx", "text.bin"}) {
      fs::copy_file(cluster_.Path(absl::StrCat("data/", file)), absl::StrCat(folder, "/", file));
    }
  }
  // Swaps `folder` and a link to the outside until a job with this data has ended.
  void RunSwapped(const std::string& job, const std::string& folder, const std::string& data) {
    const std::string link = folder + ".swap";
    fs::create_directory_symlink(outside_, link);
    const Swapper swapper(folder, link);
    const Outcome submitted =
        cluster_.Run(cluster_.Submit({.name = job,
                                      .steps = 5,
                                      .data = data,
                                      .tp_size = 1,
                                      .schedule = "{name: megatron_sync}",
                                      .more = "checkpoint: {interval_steps: 1}\n"},
                                     {}));
    if (submitted.code != 0) {  // a worker looked while the folder was the link
      ++refused_;
      return;
    }
    Job found;
    EXPECT_TRUE(Eventually([&] {
      found = cluster_.GetJob(job);
      return found.has_end_time();
    })) << found.ShortDebugString();
    EXPECT_GT(swapper.swaps(), 100);
    swaps_ += swapper.swaps();
    ++(found.state() == Job::SUCCEEDED ? succeeded_ : failed_);
    cluster_.Acknowledged(job);
  }
  // Whether enough jobs have run, of which the worker's look alone was lucky.
  bool Enough() const { return succeeded_ + failed_ >= 2; }
  void ExpectOutsideUntouched() {
    EXPECT_TRUE(Enough());
    alignas(inotify_event) char events[4096];
    const ssize_t bytes = read(watch_.get(), events, sizeof events);
    EXPECT_LE(bytes, 0) << "somebody opened or made "
                        << reinterpret_cast<const inotify_event*>(events)->name;
    Saw(absl::StrCat(swaps_, " swaps; ", succeeded_, " jobs SUCCEEDED, ", failed_, " FAILED, ",
                     refused_, " refused at submit, nothing outside was opened"));
  }

 private:
  const std::string outside_;
  const FileDescriptor watch_{inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
  int64_t swaps_ = 0;
  int succeeded_ = 0, failed_ = 0, refused_ = 0;
};

TEST_F(PathSwap, OfDataWhileAJobPrepares) {
  Try("a folder of data that becomes a link out of the data root and back, until 2 jobs have run");
  for (int i = 0; i < 300 && !Enough(); ++i) {
    const std::string name = absl::StrCat("swapped-data-", i);
    const std::string folder = cluster_.Path("data/" + name);
    fs::create_directory(folder);
    CopyText(folder);
    RunSwapped(name, folder, name + "/text");
  }
  ExpectOutsideUntouched();
}

TEST_F(PathSwap, OfCheckpointsWhileAJobSaves) {
  Try("the folder of a job's checkpoints that becomes a link and back, until 2 jobs have run");
  for (int i = 0; i < 300 && !Enough(); ++i) {
    const std::string name = absl::StrCat("swapped-checkpoint-", i);
    fs::create_directories(cluster_.CheckpointFolder(name));
    chmod(cluster_.CheckpointFolder(name).c_str(), 0777);
    RunSwapped(name, cluster_.CheckpointFolder(name), "text");
  }
  ExpectOutsideUntouched();
}

}  // namespace
}  // namespace stretto::integration
