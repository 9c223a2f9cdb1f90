// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/cost/work.h"

namespace stretto {
namespace {

double CollectiveSeconds(const Interconnect& wire, const Program& program, const Op& op) {
  const Group& group = program.groups.at(op.group);
  const CollectiveKind kind = InfoOf(op.kind).collective;
  const Route route = RouteOf(wire, group, kind);
  const auto ranks = static_cast<int>(group.ranks.size());
  return SecondsOf(LinkStepsOf(kind, ranks, WireBytes(program, op)), route.latency_seconds,
                   SpeedAlone(wire, route));
}

absl::Status ExpectField(bool ok, absl::string_view field, double found,
                         absl::string_view expected) {
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": found ", found, ", expected ", expected));
}

// Written, like the other checks, so that NaN fails.
absl::Status ExpectRate(absl::string_view field, double found) {
  return ExpectField(found > 0, field, found, "above 0");
}

absl::Status Validate(const Interconnect& wire) {
  auto latency = [](absl::string_view field, double found) {
    return ExpectField(found >= 0 && found < 1e6, field, found, "at least 0 and finite");
  };
  RETURN_IF_ERROR(ExpectRate("interconnect.bytes_per_second", wire.bytes_per_second));
  RETURN_IF_ERROR(latency("interconnect.latency_seconds", wire.latency_seconds));
  RETURN_IF_ERROR(ExpectRate("interconnect.node_bytes_per_second", wire.node_bytes_per_second));
  RETURN_IF_ERROR(latency("interconnect.node_latency_seconds", wire.node_latency_seconds));
  RETURN_IF_ERROR(ExpectField(wire.burst_bytes >= 0 && wire.burst_bytes < 1e18,
                              "interconnect.burst_bytes", wire.burst_bytes,
                              "at least 0 and finite"));
  for (Rank rank : wire.topology.node.ids()) {
    const int node = wire.topology.node[rank];
    const std::string field = absl::StrCat("interconnect.topology.node[", rank.value(), "]");
    RETURN_IF_ERROR(ExpectField(node >= 0, field, node, "at least 0"));
  }
  return absl::OkStatus();
}

}  // namespace

double CostModel::Alone(const Program& program, const Op& op) const {
  if (const double* seconds = table.Find(program, op); seconds != nullptr) return *seconds;
  if (IsCollective(op.kind)) return CollectiveSeconds(interconnect, program, op);
  const Work work = WorkOf(program, op);
  return work.flops / machine.flops_per_second + work.bytes / machine.bytes_per_second;
}

const Contention& CostModel::Together(OpKind computation, CollectiveKind collective) const {
  if (pairs.empty()) return contention;
  const auto found = pairs.find({ClassOf(computation), collective});
  return found == pairs.end() ? contention : found->second;
}

absl::Status Validate(const CostModel& model) {
  auto share = [](absl::string_view field, double found) {
    return ExpectField(found >= 0 && found < 1, field, found, "at least 0 and below 1");
  };
  RETURN_IF_ERROR(ExpectRate("machine.flops_per_second", model.machine.flops_per_second));
  RETURN_IF_ERROR(ExpectRate("machine.bytes_per_second", model.machine.bytes_per_second));
  RETURN_IF_ERROR(Validate(model.interconnect));
  const auto both = [&](const std::string& field, const Contention& found) {
    RETURN_IF_ERROR(share(absl::StrCat(field, ".compute"), found.compute));
    RETURN_IF_ERROR(share(absl::StrCat(field, ".communication"), found.communication));
    return ExpectField(found.turn_seconds >= 0 && found.turn_seconds < 1e6,
                       absl::StrCat(field, ".turn_seconds"), found.turn_seconds,
                       "at least 0 and finite");
  };
  RETURN_IF_ERROR(both("contention", model.contention));
  for (const auto& [pair, found] : model.pairs) {
    RETURN_IF_ERROR(
        both(absl::StrCat("pairs.", NameOf(pair.first), ".", InfoOf(pair.second).name), found));
  }
  return absl::OkStatus();
}

}  // namespace stretto
