// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stretto {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ShardTensor Tensor(const std::string& name, std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  return {name, "F32", {count}, {0}, {count}, TensorData(values.data())};
}

std::vector<float> ValuesOf(const ShardTensor& tensor) {
  const float* data = static_cast<const float*>(*tensor.data.fetch());
  return {data, data + tensor.extents[0]};
}

TEST(SnapshotTest, ACopyKeepsWhatWasThere) {
  std::vector<float> a = {1, 2}, b = {3};
  Snapshot snapshot = *Snapshot::Make(12);
  EXPECT_EQ(snapshot.bytes(), 12);
  const auto copies = snapshot.Copy({Tensor("a", a), Tensor("b", b)});
  ASSERT_TRUE(copies.ok()) << copies.status();
  a = {0, 0};
  b = {0};
  EXPECT_EQ((*copies)[0].name, "a");
  EXPECT_THAT(ValuesOf((*copies)[0]), ElementsAre(1, 2));
  EXPECT_THAT(ValuesOf((*copies)[1]), ElementsAre(3));
  // The next takes the place of the one before.
  const auto next = snapshot.Copy({Tensor("a", a), Tensor("b", b)});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(ValuesOf((*next)[0]), ElementsAre(0, 0));
}

TEST(SnapshotTest, NeverTakesMoreThanItsRoom) {
  std::vector<float> a = {1, 2}, b = {3};
  Snapshot snapshot = *Snapshot::Make(11);
  EXPECT_EQ(snapshot.Copy({Tensor("a", a), Tensor("b", b)}).status(),
            absl::InternalError("copy for checkpoints: tensor b: found 3 bytes of room, expected "
                                "4"));
}

TEST(SnapshotTest, ATensorThatCannotBeFetchedIsTheError) {
  std::vector<float> a = {1};
  ShardTensor tensor = Tensor("a", a);
  tensor.data = TensorData(
      []() -> absl::StatusOr<const void*> { return absl::UnavailableError("the device is gone"); });
  EXPECT_EQ(Snapshot::Make(4)->Copy({tensor}).status(),
            absl::UnavailableError("the device is gone"));
}

TEST(SnapshotTest, MemoryThatTheSystemDoesNotHaveIsRefused) {
  const absl::Status status = Snapshot::Make(int64_t{1} << 60).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("copy for checkpoints: found no room for "));
}

}  // namespace
}  // namespace stretto
