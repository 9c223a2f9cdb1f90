// SPDX-License-Identifier: Apache-2.0
#pragma once
// The network between ranks: which network interfaces a collective crosses, and how transfers that
// are in progress at once share them. Pure; plain values.
//
// A node has one interface, which carries its bandwidth in each direction at once. Ranks of a node
// reach each other over links of their own, which never cross the interface. A collective goes
// along the ring of its ranks in the order of the group, a transfer between stages along their
// chain (LinkStepsOf in worker/comm/collective/collective.h): in every step each rank sends one
// part to the next one.

#include <limits>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "worker/comm/collective/collective.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The node of each rank of a job, from 0.
struct Topology {
  IdVector<Rank, int> node;
};

struct Interconnect {
  double bytes_per_second = std::numeric_limits<double>::infinity();  // of a node, each direction
  double latency_seconds = 0;  // per step of a ring that crosses an interface
  // Of a rank to the others on its node, each direction.
  double node_bytes_per_second = std::numeric_limits<double>::infinity();
  double node_latency_seconds = 0;  // per step of a ring within a node
  Topology topology = {};           // empty: each rank is a node of its own
  // What an interface that is idle saves up to send at once, as the token bucket of a shaped link
  // does. It is empty when the step begins.
  double burst_bytes = 0;

  int NodeOf(Rank rank) const { return topology.node.empty() ? rank.value() : topology.node[rank]; }
};

// One direction of the interface of a node, or of the link of a rank to the others on its node.
struct Port {
  bool interface = true;
  int of = 0;  // the node, or the rank
  bool out = true;
  auto operator<=>(const Port&) const = default;
};
double CapacityOf(const Interconnect& wire, const Port& port);  // bytes per second

// The parts that cross each port in one step of a collective of a group.
struct Route {
  std::map<Port, double> parts;
  double latency_seconds = 0;  // of a step
};
Route RouteOf(const Interconnect& wire, const Group& group, CollectiveKind kind);

// Returns the bytes per second of each part if nothing else is on the network.
double SpeedAlone(const Interconnect& wire, const Route& route);

// Returns the seconds of a collective whose parts travel at `bytes_per_second`.
double SecondsOf(const LinkSteps& steps, double latency_seconds, double bytes_per_second);

// Parts that travel at one speed: how many of them cross each port, by its number.
using Flow = std::map<size_t, double>;

// Returns the speed of each flow by max-min fairness (Bertsekas and Gallager 1992, section 6.5.2):
// no part can be faster unless another one, which is not faster than it, becomes slower. That is
// what connections of equal round-trip time reach on shared interfaces. `capacities` are those of
// the ports, above 0. A flow that crosses no port has infinite speed.
std::vector<double> FairSpeeds(absl::Span<const double> capacities,
                               absl::Span<const Flow* const> flows);

}  // namespace stretto
