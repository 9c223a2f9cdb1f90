// SPDX-License-Identifier: Apache-2.0
#pragma once
// One row of the table of faults: a cluster of real processes with the timeouts that people have, a
// fault, and what is seen of it, against its bounds (table_row.h, tests/integration/faults.sh).

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/integration/cluster.h"
#include "tests/integration/faults/slow_calls.h"
#include "tests/integration/machine_faults.h"

namespace stretto::integration {

// Saves often and starts again without a pause.
inline constexpr char kRestarts[] =
    "checkpoint: {interval_steps: 5}\nrestart: {max: 100, backoff: 0}\n";

class FaultTest : public ClusterTest {
 protected:
  struct Row {
    std::string fault, expected;
    double seen_within = 0;   // seconds after the fault; 0: no bound
    double again_within = 0;  // the same, until it trains again
  };
  // First of all. A row that is not expected to be seen, or to train again, has no such time.
  void Expect(Row row) { row_ = std::move(row); }

  // A job that never ends by itself, with kSlow, once it has done `step`.
  void Run(const std::string& name, int step, const std::string& more = kRestarts);

  // The fault happens when this returns. `job` is the one that is harmed, or must not be.
  void Strike(const std::string& job, const std::function<void()>& fault);
  double SinceStrike() const;  // seconds
  // Waits until it holds, at most so long after the fault.
  bool AwaitWithin(double seconds, const std::function<bool()>& holds);
  // Waits until that number of seconds after the fault: the fault is that the time passes.
  void LetPass(double seconds);

  // Waits for the coordinator to name the failure of the job's present attempt; returns it.
  Json AwaitFailure();
  // Fills in the column; beyond the bound the row is missed.
  void NoteSeen();
  // Waits for a step of a later attempt, and compares with the last checkpoint before the fault.
  void AwaitTrainingAgain();
  // The job is as if nothing had happened: the same trainers in the first attempt, and after three
  // more steps every step is there once. Ends it.
  void ExpectUnharmed();
  // The newest complete checkpoint of the job; 0: none.
  int SavedStep(const std::string& job) const;
  void NoteLost(int64_t steps) { lost_ = std::to_string(steps); }
  // What was measured besides; stands behind the verdict.
  void NoteFigures(const std::string& text) { figures_ += "; " + text; }
  static std::vector<int> StepsLogged(const std::string& log);
  std::string LogOf(int rank) const { return RunFolder(job_, rank) + "/trainer.log"; }
  bool AllAreRunning() const;  // the trainers at the time of the fault

  void TearDown() override;

  std::string job_;
  std::vector<pid_t> trainers_;  // at the time of the fault, by rank

 private:
  Row row_;
  absl::Duration struck_;
  std::string folder_before_;  // of rank 0, with its attempt's log
  int saved_before_ = 0;
  std::string seen_ = "-", again_ = "-", lost_ = "-";
  std::string figures_;
};

}  // namespace stretto::integration
