// SPDX-License-Identifier: Apache-2.0
#pragma once
// The network of a simulation: how fast each transfer in progress is, because of the others. Not
// thread-safe.

#include <array>
#include <map>
#include <set>
#include <vector>

#include "worker/engine/cost/topology.h"

namespace stretto {

class Network {
 public:
  // Adds a channel, which has at most one transfer in progress. Returns its number, from 0.
  size_t AddChannel();
  // Lets the transfers of a channel cross the ports of this group too; a group counts once. All
  // groups of a channel communicate at the same times, and the first one has the speed alone.
  void AddGroup(size_t channel, const Interconnect& wire, const Group& group);

  // Begins a transfer at a time in seconds. Returns how much sooner it is done, at its speed alone,
  // if it sends at once what interfaces that it leaves have saved up while they were idle.
  double Begin(size_t channel, CollectiveKind kind, int64_t bytes, double now);
  void End(size_t channel, double now);

  // Divides the ports among the transfers in progress. Returns the channels in progress whose rate
  // may have changed, in ascending order; valid until the next call.
  const std::set<size_t>& Settle();

  // Returns the speed of a transfer in progress relative to its speed alone: above 0, at most 1.
  double RateOf(size_t channel) const { return channels_[channel].rate; }

 private:
  struct Path {
    Flow flow;
    double latency_seconds = 0;
    double alone = 0;  // bytes per second of each part
  };
  struct Channel {
    std::vector<Group> groups;
    std::array<Path, 2> paths;  // around the ring, along the chain
    int path = 0;               // of the transfer in progress
    LinkSteps steps;
    double rate = 1;
  };
  const Path& PathOf(size_t channel) const {
    return channels_[channel].paths[channels_[channel].path];
  }

  std::vector<Channel> channels_;
  std::map<Port, size_t> numbers_;
  struct Shared {
    double capacity = 0;
    bool sends = false;
    double burst_bytes = 0;       // 0 within a node
    double idle_since = 0;        // meaningful while there are no users
    std::set<size_t> users = {};  // channels in progress
  };
  std::vector<Shared> ports_;
  std::set<size_t> changed_;    // ports
  std::set<size_t> concerned_;  // channels
};

}  // namespace stretto
