// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job whose steps are measured: one process per rank, connected as the ranks of a job are.

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/rank_flags.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/parity.h"
#include "worker/trainer/rank_device.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::bench {

struct StepTime {
  double seconds = 0;      // of the slowest rank
  double cpu_seconds = 0;  // of this process
};

// Of one rank. All ranks call each function together. Errors: those of RankDevice, of executors and
// of communicators.
class MeasuredJob {
 public:
  // `specs`, at least one, of as many ranks each, decide the groups. Engines may be of others whose
  // groups are among them.
  static absl::StatusOr<std::unique_ptr<MeasuredJob>> Connect(const std::vector<EngineSpec>& specs,
                                                              const RankFlags& flags);

  Rank rank() const { return connections_.front().config.rank; }
  Communicator& control() { return connections_.front().device->control(); }
  Backend& backend() { return connections_.front().device->backend(); }
  // The groups of all specs that this rank is in, and their connections.
  const IdVector<GroupId, Group>& groups() const { return groups_; }
  const GroupLinks& links() const { return links_; }
  // Returns the connections of the groups of `spec`.
  GroupLinks LinksOf(const EngineSpec& spec) const;

  // Returns an engine with weights drawn from kSeed.
  absl::StatusOr<std::unique_ptr<trainer::RankEngine>> Make(const EngineSpec& spec,
                                                            Variant variant);
  // Runs the first steps of training and returns their results.
  absl::StatusOr<std::vector<trainer::StepResult>> FirstSteps(trainer::RankEngine& engine);
  // Errors: Internal naming `what`, if a rank found other bits than its oracle.
  absl::Status ExpectBits(const std::string& what, const std::vector<trainer::StepResult>& oracle,
                          const std::vector<trainer::StepResult>& found);

  // Returns the largest of the ranks' values.
  absl::StatusOr<double> Slowest(double mine);
  // Runs a program once, on a link whose token bucket is drained.
  absl::StatusOr<StepTime> Step(trainer::RankEngine& engine);

 private:
  MeasuredJob() = default;

  // A device connects the groups of one spec.
  struct Connection {
    trainer::JobConfig config;  // outlives the device
    std::unique_ptr<trainer::RankDevice> device;
  };

  std::list<Connection> connections_;
  IdVector<GroupId, Group> groups_;
  GroupLinks links_;  // by group
};

}  // namespace stretto::bench
