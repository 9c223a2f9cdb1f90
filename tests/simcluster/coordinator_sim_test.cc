// SPDX-License-Identifier: Apache-2.0

// Runs the simulated cluster with many seeds. One seed again: STRETTO_SIM_SEED=N. More:
// STRETTO_SIM_RUNS=N.

#include "tests/simcluster/coordinator_sim.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "absl/strings/numbers.h"

namespace stretto::coordinator::testing {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t number = otherwise;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : otherwise;
}

TEST(CoordinatorSim, InvariantsHoldUnderFaults) {
  const bool single = std::getenv("STRETTO_SIM_SEED") != nullptr;
  const uint64_t first = FromEnvironment("STRETTO_SIM_SEED", 1);
  const uint64_t runs = single ? 1 : FromEnvironment("STRETTO_SIM_RUNS", 100);
  Probes probes;
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    int event = 0;
    try {
      ClusterSim sim(seed, probes);
      for (; event < 600; ++event) sim.Step();
      sim.RunToEnd();
    } catch (const std::logic_error& error) {
      FAIL() << error.what() << "; seed " << seed << ", event " << event
             << "; run again with STRETTO_SIM_SEED=" << seed;
    }
  }
  if (single) return;
  // The rare paths were reached.
  for (const char* probe : {"SUCCEEDED",
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
                            "report repeated",
                            "coordinator stood still",
                            "slow commit",
                            "disk full",
                            "wall clock jumped",
                            "node cut off",
                            "run continued after a cut",
                            "run moved during a cut",
                            "restarted in another layout",
                            "job deleted",
                            "worker forgotten",
                            "rank of an older epoch",
                            "held rank ended",
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
                            "resumed",
                            "cordoned"}) {
    EXPECT_GT(probes[probe], 0) << probe;
    RecordProperty(probe, static_cast<int>(probes[probe]));
  }
}

}  // namespace
}  // namespace stretto::coordinator::testing
