// SPDX-License-Identifier: Apache-2.0

// Runs the simulated cluster with many seeds. One seed again: STRETTO_SIM_SEED=N. More, in all
// tests together: STRETTO_SIM_RUNS=N; the first of them: STRETTO_SIM_FIRST=N.

#include "tests/simcluster/coordinator_sim.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "absl/strings/numbers.h"

namespace stretto::coordinator::testing {
namespace {

constexpr uint64_t kRuns = 10'000;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t number = otherwise;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

// A folder for the store, removed with this object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stretto-sim-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  void Empty() const {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
  }

 private:
  std::string path_;
};

// False if the seed breaks an invariant, which fails the test.
bool RunSeed(uint64_t seed, const SimOptions& options, Probes& probes) {
  int event = 0;
  try {
    ClusterSim sim(seed, probes, options);
    for (; event < 600; ++event) sim.Step();
    sim.RunToEnd();
  } catch (const std::logic_error& error) {
    ADD_FAILURE() << error.what() << "; seed " << seed << ", event " << event
                  << "; run again with STRETTO_SIM_SEED=" << seed;
    return false;
  }
  return true;
}

// Runs a share of all seeds; the first that breaks an invariant fails the test. False if only one
// seed was asked for.
bool RunSeeds(double share, SimOptions options, Probes& probes) {
  const bool single = std::getenv("STRETTO_SIM_SEED") != nullptr;
  const uint64_t first =
      single ? FromEnvironment("STRETTO_SIM_SEED", 1) : FromEnvironment("STRETTO_SIM_FIRST", 1);
  const double all = static_cast<double>(FromEnvironment("STRETTO_SIM_RUNS", kRuns));
  const uint64_t runs = single ? 1 : static_cast<uint64_t>(share * all);
  const Folder folder;
  if (!options.folder.empty()) options.folder = folder.path();
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    if (!options.folder.empty()) folder.Empty();
    if (!RunSeed(seed, options, probes)) return false;
  }
  return !single;
}

// The rare paths were reached.
void ExpectProbes(Probes& probes, const std::vector<const char*>& names) {
  for (const char* probe : names) {
    EXPECT_GT(probes[probe], 0) << probe;
    ::testing::Test::RecordProperty(probe, static_cast<int>(probes[probe]));
  }
}

TEST(CoordinatorSim, ADiskThatTearsWritesLosesNothingAcknowledged) {
  Probes probes;
  if (!RunSeeds(0.05, {.healthy_nodes = false, .folder = "new"}, probes)) return;
  ExpectProbes(probes, {"SUCCEEDED", "died within a write", "coordinator restarted"});
}

TEST(CoordinatorSim, HealthyNodesLoseNoJobOnADiskThatTearsWrites) {
  Probes probes;
  if (!RunSeeds(0.05, {.healthy_nodes = true, .folder = "new"}, probes)) return;
  ExpectProbes(probes, {"SUCCEEDED", "died within a write", "coordinator restarted"});
}

TEST(CoordinatorSim, InvariantsHoldUnderFaults) {
  Probes probes;
  if (!RunSeeds(0.7, {}, probes)) return;
  ExpectProbes(probes, {"SUCCEEDED",
                        "FAILED",
                        "CANCELLED",
                        "Killed",
                        "PeerLost",
                        "WorkerLost",
                        "TrainerLost",
                        "store failed",
                        "coordinator restarted",
                        "daemon restarted",
                        "report refused",
                        "report skipped by a stream",
                        "report read to be sent",
                        "report in no log",
                        "report counted by the next coordinator",
                        "reports lost with a daemon",
                        "dropped by a log",
                        "counted as dropped",
                        "disk of a node full",
                        "registration had no answer",
                        "worker came to another cluster",
                        "daemon refused",
                        "coordinator stood still",
                        "slow commit",
                        "disk full",
                        "wall clock jumped",
                        "node cut off",
                        "run continued after a cut",
                        "run moved during a cut",
                        "restarted in another layout",
                        "job deleted",
                        "job retired",
                        "worker forgotten",
                        "rank of an older epoch",
                        "held rank ended",
                        "assignment waited",
                        "stopped while it waited",
                        "gang that could not start",
                        "killed after its grace",
                        "daemon asked to end",
                        "GPU failed",
                        "job on a faulty GPU",
                        "started past another kind's queue",
                        "block on several workers",
                        "block that no worker could hold",
                        "restarts",
                        "preempted",
                        "preempted for another job",
                        "backfilled",
                        "over quota",
                        "suspended",
                        "checkpoint asked",
                        "checkpoint on request",
                        "resumed",
                        "cordoned"});
}

// Beyond the seeds that run every time.
TEST(CoordinatorSim, SeedsThatOnceFailed) {
  const SimOptions former = {.healthy_nodes = false, .folder = "", .patient = false};
  Probes probes;
  // A job took the devices of a quota that an earlier job of another kind waited to use.
  RunSeed(38988, former, probes);
  // A rank ended while its worker registered, and after a full disk its end repeated a number.
  RunSeed(8786, former, probes);
  // Three rounds, each of which the store refused at its end, counted for a lease.
  RunSeed(120642, former, probes);
  // A commit whose response was lost had given a rank up, which a restart showed only later.
  RunSeed(126993, former, probes);
  // The same of a worker that registered without its ranks.
  RunSeed(29993, {}, probes);
  // Contact returned after a run had been given up for good, and was lost before its stop arrived.
  RunSeed(62406, {}, probes);
  // A snapshot had reports of an attempt that had run on another node.
  RunSeed(105212, {}, probes);
  // Each time that a worker came back the store refused, and in between it worked.
  RunSeed(33823, {.healthy_nodes = true, .folder = ""}, probes);
  RunSeed(45501, {.healthy_nodes = true, .folder = ""}, probes);
}

TEST(CoordinatorSim, HealthyNodesLoseNoJobWhateverTheControlPlaneDoes) {
  Probes probes;
  if (!RunSeeds(0.2, {.healthy_nodes = true, .folder = ""}, probes)) return;
  ExpectProbes(probes,
               {"SUCCEEDED", "store failed", "coordinator restarted", "coordinator stood still",
                "slow commit", "disk full", "wall clock jumped"});
}

}  // namespace
}  // namespace stretto::coordinator::testing
