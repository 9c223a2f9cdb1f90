// SPDX-License-Identifier: Apache-2.0

// Where a transfer begins or ends, its ports change, and with them the speeds of all transfers that
// are connected to them through shared ports. Settle collects those and divides their ports anew;
// the others keep their speeds, so an event costs what it concerns.

#include "worker/engine/exec/backend_sim/network.h"

#include <algorithm>
#include <cmath>

namespace stretto {
namespace {

constexpr int kRing = 0, kChain = 1;

}  // namespace

size_t Network::AddChannel() {
  channels_.emplace_back();
  return channels_.size() - 1;
}

void Network::AddGroup(size_t channel, const Interconnect& wire, const Group& group) {
  std::vector<Group>& groups = channels_[channel].groups;
  if (std::find(groups.begin(), groups.end(), group) != groups.end()) return;
  groups.push_back(group);
  for (const auto& [path, kind] : {std::pair{kRing, CollectiveKind::kAllReduce},
                                   std::pair{kChain, CollectiveKind::kBroadcast}}) {
    const Route route = RouteOf(wire, group, kind);
    Path& joined = channels_[channel].paths[path];
    if (groups.size() == 1) {
      joined.latency_seconds = route.latency_seconds;
      joined.alone = SpeedAlone(wire, route);
    }
    for (const auto& [port, parts] : route.parts) {
      const double capacity = CapacityOf(wire, port);
      if (std::isinf(capacity)) continue;
      const auto [it, fresh] = numbers_.try_emplace(port, ports_.size());
      if (fresh) {
        ports_.push_back({.capacity = capacity,
                          .sends = port.out,
                          .burst_bytes = port.interface ? wire.burst_bytes : 0});
      }
      Shared& shared = ports_[it->second];
      shared.capacity = std::min(shared.capacity, capacity);
      joined.flow[it->second] += parts;
    }
  }
}

double Network::Begin(size_t channel, CollectiveKind kind, int64_t bytes, double now) {
  Channel& begun = channels_[channel];
  begun.path = InfoOf(kind).rooted ? kChain : kRing;
  begun.steps = LinkStepsOf(kind, static_cast<int>(begun.groups.front().ranks.size()), bytes);
  begun.rate = 1;
  const Path& path = PathOf(channel);
  // The sender that has saved up least decides.
  double sooner = begun.steps.steps * begun.steps.step_bytes / path.alone;
  for (const auto& [port, parts] : path.flow) {
    Shared& shared = ports_[port];
    if (shared.sends) {
      const double idle = shared.users.empty() ? now - shared.idle_since : 0;
      const double saved = std::min(shared.burst_bytes, idle * shared.capacity);
      sooner = std::min(sooner, saved / (parts * path.alone));
    }
    shared.users.insert(channel);
    changed_.insert(port);
  }
  return sooner;
}

void Network::End(size_t channel, double now) {
  for (const auto& [port, parts] : PathOf(channel).flow) {
    ports_[port].users.erase(channel);
    ports_[port].idle_since = now;
    changed_.insert(port);
  }
}

const std::set<size_t>& Network::Settle() {
  concerned_.clear();
  std::map<size_t, size_t> places;  // of ports, among those that are divided
  std::vector<size_t> next(changed_.begin(), changed_.end());
  changed_.clear();
  while (!next.empty()) {
    const size_t port = next.back();
    next.pop_back();
    if (!places.try_emplace(port, places.size()).second) continue;
    for (size_t channel : ports_[port].users) {
      if (!concerned_.insert(channel).second) continue;
      for (const auto& [other, parts] : PathOf(channel).flow) next.push_back(other);
    }
  }
  std::vector<double> capacities(places.size());
  for (const auto& [port, place] : places) capacities[place] = ports_[port].capacity;
  std::vector<Flow> flows;
  for (size_t channel : concerned_) {
    Flow& flow = flows.emplace_back();
    for (const auto& [port, parts] : PathOf(channel).flow) flow[places.at(port)] = parts;
  }
  std::vector<const Flow*> divided;
  for (const Flow& flow : flows) divided.push_back(&flow);
  const std::vector<double> speeds = FairSpeeds(capacities, divided);
  size_t i = 0;
  for (size_t channel : concerned_) {
    const Path& path = PathOf(channel);
    const LinkSteps& steps = channels_[channel].steps;
    const double alone = SecondsOf(steps, path.latency_seconds, path.alone);
    const double shared = SecondsOf(steps, path.latency_seconds, speeds[i++]);
    channels_[channel].rate = shared > 0 ? alone / shared : 1;
  }
  return concerned_;
}

}  // namespace stretto
