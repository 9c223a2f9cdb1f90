// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/topology.h"

#include <algorithm>
#include <iterator>

namespace stretto {

double CapacityOf(const Interconnect& wire, const Port& port) {
  return port.interface ? wire.bytes_per_second : wire.node_bytes_per_second;
}

Route RouteOf(const Interconnect& wire, const Group& group, CollectiveKind kind) {
  Route route;
  const int ranks = std::ssize(group.ranks);
  if (ranks == 1) return route;
  const int sends = InfoOf(kind).rooted ? ranks - 1 : ranks;
  for (int i = 0; i < sends; ++i) {
    const Rank from = group.ranks[GroupRank::Of(i)],
               to = group.ranks[GroupRank::Of((i + 1) % ranks)];
    const int a = wire.NodeOf(from), b = wire.NodeOf(to);
    const bool crosses = a != b;
    ++route.parts[{.interface = crosses, .of = crosses ? a : from.value(), .out = true}];
    ++route.parts[{.interface = crosses, .of = crosses ? b : to.value(), .out = false}];
    route.latency_seconds =
        std::max(route.latency_seconds, crosses ? wire.latency_seconds : wire.node_latency_seconds);
  }
  return route;
}

double SpeedAlone(const Interconnect& wire, const Route& route) {
  double speed = std::numeric_limits<double>::infinity();
  for (const auto& [port, parts] : route.parts)
    speed = std::min(speed, CapacityOf(wire, port) / parts);
  return speed;
}

double SecondsOf(const LinkSteps& steps, double latency_seconds, double bytes_per_second) {
  return steps.steps * (latency_seconds + steps.step_bytes / bytes_per_second);
}

// Raises the speed of all flows together until a port is full, fixes that of the flows that cross
// it, and continues with the others.
std::vector<double> FairSpeeds(absl::Span<const double> capacities,
                               absl::Span<const Flow* const> flows) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> speeds(flows.size(), kInfinity);
  std::vector<double> left(capacities.begin(), capacities.end()), parts(capacities.size());
  for (const Flow* flow : flows) {
    for (const auto& [port, crossing] : *flow) parts[port] += crossing;
  }
  std::vector<bool> fixed(flows.size());
  while (true) {
    double speed = kInfinity;
    size_t full = 0;
    for (size_t port = 0; port < parts.size(); ++port) {
      if (parts[port] == 0 || left[port] / parts[port] >= speed) continue;
      speed = left[port] / parts[port];
      full = port;
    }
    if (speed == kInfinity) return speeds;
    for (size_t i = 0; i < flows.size(); ++i) {
      if (fixed[i] || !flows[i]->contains(full)) continue;
      fixed[i] = true;
      speeds[i] = speed;
      for (const auto& [port, crossing] : *flows[i]) {
        left[port] -= speed * crossing;
        parts[port] -= crossing;
      }
    }
  }
}

}  // namespace stretto
