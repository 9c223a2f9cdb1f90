// SPDX-License-Identifier: Apache-2.0

// The rows of operations.inc: whole, and bound to the kernel parameters of the same names.

#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops.h"
#include "worker/engine/program/operands.h"

namespace stretto {
namespace {

// Keeps the data of each view that a call is given, by the name of the parameter.
class RecordingOps final : public Ops {
 public:
#define STRETTO_OP(name, parameters, arguments) \
  void name parameters override {               \
    ++calls;                                    \
    Record arguments;                           \
    Name(#arguments);                           \
  }
#include "kernels/ops.inc"
#undef STRETTO_OP

  int calls = 0;
  std::map<std::string, const void*> data;

 private:
  template <class... Values>
  void Record(const Values&... values) {
    views_.clear();
    (Keep(values), ...);
  }
  template <class Value>
  void Keep(const Value& value) {
    if constexpr (std::is_same_v<Value, TensorView>) {
      views_.push_back(value.data);
    } else {
      views_.push_back(this);  // no operand
    }
  }
  void Name(absl::string_view arguments) {
    absl::ConsumePrefix(&arguments, "(");
    absl::ConsumeSuffix(&arguments, ")");
    const std::vector<std::string> names = absl::StrSplit(arguments, ", ");
    ASSERT_EQ(names.size(), views_.size());
    data.clear();
    for (size_t i = 0; i < names.size(); ++i) {
      if (views_[i] != this) data.emplace(names[i], views_[i]);
    }
  }

  std::vector<const void*> views_;
};

// Runs an operation whose operands lie at an address per name; absent ones have none.
class CallTest : public ::testing::Test {
 protected:
  void Run(const OpInfo& info, bool with_optional) {
    addresses_.clear();
    Op op;
    op.kind = info.kind;
    op.attributes.assign(info.attributes.size(), 0);
    const ViewOperands operands(op, Views(info.inputs, with_optional),
                                Views(info.outputs, with_optional));
    info.call(operands, &ops_)();
  }
  std::vector<TensorView> Views(const std::vector<const char*>& names, bool with_optional) {
    std::vector<TensorView> views;
    for (const char* name : names) {
      if (!with_optional && name[std::string(name).size() - 1] == '?') continue;
      const auto [address, is_new] =
          addresses_.try_emplace(std::string(BareName(name)), &memory_[addresses_.size()]);
      views.push_back({.data = address->second, .dtype = DType::kF32, .shape = {1, 1, 1, 1}});
    }
    return views;
  }

  RecordingOps ops_;
  float memory_[16] = {};
  std::map<std::string, void*> addresses_;
};

TEST_F(CallTest, EachOperandReachesTheParameterOfItsName) {
  int calls = 0;
  for (const OpInfo& info : AllOps()) {
    if (IsCollective(info.kind)) continue;
    SCOPED_TRACE(info.name);
    Run(info, true);
    EXPECT_EQ(ops_.calls, ++calls);
    EXPECT_THAT(ops_.data,
                ::testing::UnorderedElementsAreArray(addresses_.begin(), addresses_.end()));
  }
}

TEST_F(CallTest, AnAbsentOperandHasNoData) {
  Run(InfoOf(OpKind::kGemm), false);
  EXPECT_EQ(ops_.data.at("bias"), nullptr);
  Run(InfoOf(OpKind::kLayerNormDgrad), false);
  EXPECT_EQ(ops_.data.at("residual"), nullptr);
}

TEST_F(CallTest, WithoutAWeightTheMasterIsTheWeight) {
  Run(InfoOf(OpKind::kAdamW), false);
  EXPECT_EQ(ops_.data.at("weight"), addresses_.at("master"));
}

TEST(OperationsTest, RowsAreWhole) {
  std::set<std::string> names;
  for (const OpInfo& info : AllOps()) {
    SCOPED_TRACE(info.name);
    EXPECT_EQ(&InfoOf(info.kind), &info);
    EXPECT_EQ(FindOp(info.name), &info);
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_EQ(info.role == OperationRole::kCollective, IsCollective(info.kind));
    EXPECT_EQ(info.call == nullptr, IsCollective(info.kind));
  }
}

// A rule skips operands that are absent, so that it would skip a misspelt one.
TEST(OperationsTest, ShapeRulesNameOperandsOfTheirRow) {
  for (const OpInfo& info : AllOps()) {
    std::set<absl::string_view> operands;
    for (const char* name : info.inputs) operands.insert(BareName(name));
    for (const char* name : info.outputs) operands.insert(BareName(name));
    operands.insert(absl::string_view());  // no rule, no operand to overwrite
    for (absl::string_view entry : absl::StrSplit(info.shapes, ' ')) {
      EXPECT_TRUE(operands.contains(entry.substr(0, entry.find(':')))) << info.name << " " << entry;
    }
    EXPECT_TRUE(operands.contains(info.overwrites)) << info.name;
  }
}

}  // namespace
}  // namespace stretto
