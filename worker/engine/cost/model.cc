// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/cost/model.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/comm/collective/collective.h"
#include "worker/engine/cost/work.h"

namespace stretto {
namespace {

double CollectiveSeconds(const Interconnect& wire, const Program& program, const Op& op) {
  const int ranks = std::ssize(program.groups.at(op.group).ranks);
  const LinkSteps cost = LinkStepsOf(InfoOf(op.kind).collective, ranks, WireBytes(program, op));
  return cost.steps * (wire.latency_seconds + cost.step_bytes / wire.bytes_per_second);
}

absl::Status ExpectField(bool ok, absl::string_view field, double found,
                         absl::string_view expected) {
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": found ", found, ", expected ", expected));
}

}  // namespace

double CostModel::Alone(const Program& program, const Op& op) const {
  if (const double* seconds = table.Find(program, op); seconds != nullptr) return *seconds;
  if (IsCollective(op.kind)) return CollectiveSeconds(interconnect, program, op);
  const Work work = WorkOf(program, op);
  return work.flops / machine.flops_per_second + work.bytes / machine.bytes_per_second;
}

absl::Status Validate(const CostModel& model) {
  // Written so that NaN fails.
  auto rate = [](absl::string_view field, double found) {
    return ExpectField(found > 0, field, found, "above 0");
  };
  auto share = [](absl::string_view field, double found) {
    return ExpectField(found >= 0 && found < 1, field, found, "at least 0 and below 1");
  };
  RETURN_IF_ERROR(rate("machine.flops_per_second", model.machine.flops_per_second));
  RETURN_IF_ERROR(rate("machine.bytes_per_second", model.machine.bytes_per_second));
  RETURN_IF_ERROR(rate("interconnect.bytes_per_second", model.interconnect.bytes_per_second));
  const double latency = model.interconnect.latency_seconds;
  RETURN_IF_ERROR(ExpectField(latency >= 0 && latency < 1e6, "interconnect.latency_seconds",
                              latency, "at least 0 and finite"));
  RETURN_IF_ERROR(share("contention.compute", model.contention.compute));
  return share("contention.communication", model.contention.communication);
}

}  // namespace stretto
