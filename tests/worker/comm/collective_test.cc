// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/collective/collective.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "tests/worker/comm/tensors.h"

namespace stretto::testing {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const absl::Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(CollectiveTest, KindsHaveDistinctNames) {
  std::set<std::string> names, labels;
  for (const CollectiveInfo& info : kCollectives) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    if (info.on_device) {
      EXPECT_TRUE(labels.insert(info.label).second) << info.name;
    }
  }
}

TEST(CollectiveTest, TwoTensorsAreRefusedWhereOneIsReducedInPlace) {
  Tensor three(DType::kF32, 3), other(DType::kF32, 3), four(DType::kF32, 4);
  Collective sum = Collective::AllReduce(three.view(), ReduceOp::kSum);
  EXPECT_TRUE(CheckCollective(sum, 2).ok());

  for (const TensorView& out : {other.view(), three.Part(0, 2), four.view()}) {
    sum.out = out;
    ExpectRefused(CheckCollective(sum, 2), "all_reduce: in and out are two tensors, expected one");
  }
}

TEST(CollectiveTest, PartsMustBeAsManyAsRanks) {
  Tensor two(DType::kF32, 2), six(DType::kF32, 6);
  EXPECT_TRUE(CheckCollective(Collective::AllGather(two.view(), six.view()), 3).ok());
  EXPECT_TRUE(CheckCollective(Collective::ReduceScatter(six.view(), two.view()), 3).ok());
  ExpectRefused(CheckCollective(Collective::AllGather(six.view(), two.view()), 3),
                "all_gather: out has 2 elements, expected 3 times the 6 of in");
  ExpectRefused(CheckCollective(Collective::ReduceScatter(six.view(), two.view()), 2),
                "reduce_scatter: in has 6 elements, expected 2 times the 2 of out");
}

TEST(CollectiveTest, KindsOfTheHostAreRefusedOnADevice) {
  Tensor tensor(DType::kF32, 2);
  EXPECT_TRUE(CheckDeviceCollective(Collective::AllReduce(tensor.view(), ReduceOp::kMax), 2).ok());
  ExpectRefused(CheckDeviceCollective(Collective::Broadcast(tensor.view(), 2), 2),
                "broadcast: root is 2, expected 0 to 1");
  ExpectRefused(CheckDeviceCollective(Collective::Barrier(), 2),
                "barrier: found on a device, expected on the host");
}

TEST(CollectiveTest, BytesAreThoseOfTheLargerTensor) {
  Tensor two(DType::kBF16, 2), six(DType::kBF16, 6);
  EXPECT_EQ(Collective::AllReduce(two.view(), ReduceOp::kSum).bytes(), 4);
  EXPECT_EQ(Collective::AllGather(two.view(), six.view()).bytes(), 12);
  EXPECT_EQ(Collective::ReduceScatter(six.view(), two.view()).bytes(), 12);
  EXPECT_EQ(Collective::Barrier().bytes(), 0);
}

}  // namespace
}  // namespace stretto::testing
