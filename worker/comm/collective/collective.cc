// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/collective/collective.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

template <class... Text>
absl::Status Refused(const CollectiveInfo& info, const Text&... text) {
  return absl::InvalidArgumentError(absl::StrCat(info.name, ": ", text...));
}

// One of the tensors has a part for every rank, the other is such a part, or has as many.
absl::Status CheckParts(const CollectiveInfo& info, const TensorView& in, const TensorView& out,
                        int ranks) {
  const bool in_is_whole = info.in_parts;
  const TensorView &whole = in_is_whole ? in : out, &part = in_is_whole ? out : in;
  const char *whole_name = in_is_whole ? "in" : "out", *part_name = in_is_whole ? "out" : "in";
  if (part.dtype != whole.dtype) {
    return Refused(info, whole_name, " is ", NameOf(whole.dtype), ", expected ", NameOf(part.dtype),
                   " as ", part_name);
  }
  const int times = info.in_parts && info.out_parts ? 1 : ranks;
  if (whole.count() == times * part.count() && whole.count() % ranks == 0) return absl::OkStatus();
  return Refused(info, whole_name, " has ", whole.count(), " elements, expected ", times,
                 " times the ", part.count(), " of ", part_name);
}

}  // namespace

absl::Status CheckCollective(const Collective& collective, int ranks) {
  const CollectiveInfo& info = collective.info();
  const TensorView &in = collective.in, &out = collective.out;
  if (info.rooted && (collective.root < 0 || collective.root >= ranks)) {
    return Refused(info, "root is ", collective.root, ", expected 0 to ", ranks - 1);
  }
  if (!info.in_place) return CheckParts(info, in, out, ranks);
  if (in.data == out.data && in.dtype == out.dtype && in.count() == out.count()) {
    return absl::OkStatus();
  }
  return Refused(info, "in and out are two tensors, expected one");
}

absl::Status CheckDeviceCollective(const Collective& collective, int ranks) {
  if (!collective.info().on_device) {
    return Refused(collective.info(), "found on a device, expected on the host");
  }
  return CheckCollective(collective, ranks);
}

int64_t ChainChunks(int64_t bytes) {
  return std::max<int64_t>(1, (bytes + kChainChunkBytes - 1) / kChainChunkBytes);
}

LinkSteps LinkStepsOf(CollectiveKind kind, int ranks, int64_t bytes) {
  if (ranks == 1) return {};
  const int passes = InfoOf(kind).ring_passes;
  if (InfoOf(kind).rooted) {
    const auto chunks = static_cast<double>(ChainChunks(bytes));
    return {.steps = chunks + ranks - 2, .step_bytes = static_cast<double>(bytes) / chunks};
  }
  if (passes == 0) return {.steps = 1, .step_bytes = static_cast<double>(bytes)};
  return {.steps = static_cast<double>(passes) * (ranks - 1),
          .step_bytes = static_cast<double>(bytes) / ranks};
}

}  // namespace stretto
