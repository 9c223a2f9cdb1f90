// SPDX-License-Identifier: Apache-2.0

// Input that only a whole cluster meets: disks that cannot be written, clocks that differ, and
// checkpoints that are not what a job asks for. docs/TESTING.md has the whole table.

#include <signal.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"
#include "tests/integration/faults/slow_calls.h"
#include "tests/integration/machine_faults.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInputTest : public ClusterTest {
 protected:
  // Of a job that ends FAILED: "REASON: MESSAGE".
  std::string FailureOf(const JobFile& file) {
    const Json ended = ConditionOf(RunJob(file, "failed"), "Succeeded");
    return absl::StrCat(ended["reason"].get<std::string>(), ": ",
                        ended["message"].get<std::string>());
  }
  // The end of a daemon that must not come up.
  std::string Refused(const Arguments& argv) {
    const Outcome outcome = RunDaemon(argv);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    return outcome.err;
  }
};

TEST_F(BadInputTest, CheckpointsOnAReadOnlyDiskFailTheJob) {
  SmallDisk disk(checkpoint_root_, 4096);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  disk.MakeReadOnly();
  StartCluster();
  EXPECT_THAT(FailureOf({.name = "unsaved", .steps = 3}),
              AllOf(HasSubstr("CheckpointFailed: "), HasSubstr(CheckpointFolder("unsaved")),
                    HasSubstr("Read-only file system")));
}

TEST_F(BadInputTest, StateOnAReadOnlyDiskIsRefused) {
  const std::string state = Path("coordinator");
  SmallDisk disk(state, 4096);
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  StartCoordinator();
  coordinator().Signal(SIGTERM);
  EXPECT_EQ(coordinator().Wait(), 0);
  disk.MakeReadOnly();
  const std::string why = "--state-dir: open " + state + "/lock: Read-only file system";
  EXPECT_THAT(Refused(CoordinatorArgv({})), HasSubstr(why));
  EXPECT_THAT(
      Refused({STRETTO_BINARY_DIR "/stretto-coordinator", "--state-dir", state, "--repair"}),
      HasSubstr(why));
  EXPECT_THAT(Refused(WorkerArgv("node-a", 1, {"--state-dir", state + "/node-a"})),
              HasSubstr("create state folder " + state + "/node-a: Read-only file system"));
}

// Whatever the clocks of nodes say, and by whatever they differ from that of the coordinator.
TEST_F(BadInputTest, ClocksAnHourApartHarmNoJob) {
  SlowCalls ahead(Path("ahead")), behind(Path("behind"));
  ahead.SetClock(absl::Hours(1));
  behind.SetClock(-absl::Hours(1));
  StartCoordinator({"--lease", "2"});
  for (const auto& [calls, name] : {std::pair(&ahead, "node-a"), std::pair(&behind, "node-b")}) {
    const std::string trainer = Path(absl::StrCat("trainer-of-", name));
    calls->Wrap(STRETTO_BINARY_DIR "/stretto-trainer", trainer);
    calls->Preload(true);
    StartWorker(name, 1, {"--trainer", trainer, "--lease", "2"});
    calls->Preload(false);
  }
  const Json job = RunJob({.name = "apart",
                           .steps = 12,
                           .more = absl::StrCat(kSplit, kSlow,
                                                "checkpoint: {interval_steps: 4}\n"
                                                "restart: {backoff: 0}\n")});
  EXPECT_EQ(job["attempt"], 1);
  EXPECT_EQ(NumbersOf(Steps("apart")), Range(1, 12));
  EXPECT_EQ(job["progress"]["last_checkpoint"], "step-00000012");
  // Times that people see are those of the coordinator alone.
  const std::string first = job["submit_to_first_step"];
  double seconds = 0;
  ASSERT_EQ(std::sscanf(first.c_str(), "%lfs", &seconds), 1) << first;
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 600);
  for (const char* name : {"node-a", "node-b"}) {
    EXPECT_EQ(Stretto({"worker", "get", name, "-o", "json"}).json()["state"], "ready");
  }
}

TEST_F(BadInputTest, ACheckpointThatIsNotWhatAJobAsksForIsRefused) {
  StartCluster();
  RunJob({.name = "saved", .steps = 2});
  // The coordinator knows the settings of the job alone, so that the trainers decide about a copy.
  const auto copy = [this](const std::string& name) {
    fs::copy(CheckpointFolder("saved"), CheckpointFolder(name), fs::copy_options::recursive);
    return CheckpointFolder(name) + "/step-00000002";
  };
  const auto from = [](const std::string& name) {
    return absl::StrCat("checkpoint: {resume_from: ", name,
                        "/step-00000002}\noptimizer: {decay_steps: 2}\n");
  };
  const std::string short_of_one = copy("short-of-one");
  fs::remove(short_of_one + "/rank-00001.safetensors");
  EXPECT_THAT(FailureOf({.name = "shards", .steps = 4, .more = from("short-of-one")}),
              AllOf(HasSubstr("CheckpointInvalid: "),
                    HasSubstr(short_of_one + "/rank-00001.safetensors: found no file, expected ")));

  const std::string intact = copy("intact");
  EXPECT_THAT(FailureOf({.name = "words",
                         .steps = 4,
                         .model = "{layers: 2, hidden: 64, heads: 4, sequence_length: 64, "
                                  "vocab_size: 300}",
                         .more = from("intact")}),
              AllOf(HasSubstr("ResumeRefused: "), HasSubstr(intact),
                    HasSubstr("model.vocab_size: found "), HasSubstr(", expected 300")));

  const std::string newer = copy("newer");
  std::string manifest = *ReadFile(newer + "/manifest.json");
  const std::string version = "\"version\": ";
  const size_t at = manifest.find(version) + version.size();
  ASSERT_TRUE(WriteFileAtomic(newer + "/manifest.json", manifest.replace(at, 1, "9")).ok());
  EXPECT_THAT(FailureOf({.name = "future", .steps = 4, .more = from("newer")}),
              AllOf(HasSubstr("ResumeRefused: "),
                    HasSubstr(newer + "/manifest.json: version: found 9, expected at most ")));

  std::ofstream(copy("crowded") + "/notes.txt") << "not a part of it\n";
  std::ofstream(CheckpointFolder("crowded") + "/step-00000009") << "no checkpoint\n";
  RunJob({.name = "strangers", .steps = 4, .more = from("crowded")});
}

// The name of a job that was deleted is free, and its checkpoints are still there.
TEST_F(BadInputTest, ACheckpointOfAnotherProjectIsRefusedUnlessItIsNamed) {
  StartCluster();
  RunJob({.name = "saved", .steps = 2, .more = "queue: {project: speech}\n"});
  ASSERT_EQ(Stretto({"job", "delete", "saved"}).code, 0);
  const auto from = [](const std::string& name) {
    return absl::StrCat("queue: {project: text}\ncheckpoint: {resume_from: ", name,
                        "}\noptimizer: {decay_steps: 2}\n");
  };
  EXPECT_THAT(FailureOf({.name = "newest", .steps = 4, .more = from("saved")}),
              AllOf(HasSubstr("ResumeRefused: "),
                    HasSubstr("found only some of project speech, expected one of project text")));
  EXPECT_THAT(
      FailureOf({.name = "exact", .steps = 4, .more = from("saved/step-00000002")}),
      AllOf(HasSubstr("ResumeRefused: "),
            HasSubstr("found a checkpoint of project speech, expected one of project text")));
  RunJob({.name = "named", .steps = 4, .more = from("saved@speech")});
  // What it writes is of its own project.
  RunJob({.name = "next", .steps = 6, .more = from("named")});
}

}  // namespace
}  // namespace stretto::integration
