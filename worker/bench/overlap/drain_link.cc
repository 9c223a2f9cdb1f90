// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/drain_link.h"

#include <iterator>
#include <vector>

#include "proto/base/status_macros.h"

namespace stretto::bench {
namespace {

constexpr int64_t kDrainBytes = 2 * kMostBucketBytes;

}  // namespace

absl::Status DrainLink(Communicator& ranks) {
  std::vector<float> values(kDrainBytes / sizeof(float), 1.0f);
  const TensorView burst{.data = values.data(),
                         .dtype = DType::kF32,
                         .shape = {std::ssize(values), 1, 1, 1},
                         .rank = 1};
  RETURN_IF_ERROR(ranks.Run(Collective::AllReduce(burst, ReduceOp::kMax)));
  return ranks.Run(Collective::Barrier());
}

}  // namespace stretto::bench
