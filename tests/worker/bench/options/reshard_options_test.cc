// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/reshard_options.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden_messages.h"
#include "worker/bench/options/reshard_cases.h"

namespace stretto::bench {
namespace {

using ::testing::ElementsAre;
using Words = std::vector<std::string>;

absl::StatusOr<ReshardOptions> Parsed(Words arguments) {
  const std::string folder = ::testing::TempDir();
  arguments.insert(arguments.begin(), {"--rendezvous", folder, "--gbps", "1"});
  return ParseReshardOptions(arguments);
}

TEST(ReshardOptionsTest, RulesAreEveryCombination) {
  const absl::StatusOr<ReshardOptions> options =
      Parsed({"--modes", "send,auto", "--senders", "first,balanced", "--cases", "alpa3"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->cases, ElementsAre("alpa3"));
  Words found;
  for (const NamedRules& rules : options->rules) {
    found.push_back(absl::StrCat(rules.mode, " ", rules.senders, " ", rules.order));
    EXPECT_EQ(rules.rules.mode, rules.mode == "send" ? ReshardMode::kSend : ReshardMode::kAuto);
    EXPECT_EQ(rules.rules.balances, rules.senders == "balanced");
    EXPECT_TRUE(rules.rules.orders);
  }
  EXPECT_THAT(found, ElementsAre("send first planned", "send balanced planned",
                                 "auto first planned", "auto balanced planned"));
}

TEST(ReshardOptionsTest, EveryCaseCanBePlanned) {
  const absl::StatusOr<ReshardOptions> options = Parsed({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->cases, ReshardCaseNames());
  for (const std::string& name : options->cases) {
    const ReshardCase& at = FindReshardCase(name);
    const Tiling from = *TilingOf(at.from, ReshardShape(1), at.source);
    const Tiling to = *TilingOf(at.to, ReshardShape(1), at.target);
    const auto plan = PlanResharding(from, to, ReshardTopology(), {.bytes_per_second = 1e9}, 4, {});
    ASSERT_TRUE(plan.ok()) << name << plan.status();
    EXPECT_EQ(CheckResharding(*plan, from, to), absl::OkStatus()) << name;
  }
}

TEST(ReshardOptionsTest, HelpIsNotAnError) {
  GoldenMessages("stretto-bench")
      .Add(ParseReshardOptions({"--help"})->help, {"--rendezvous", "--modes", "alpa9", "Example"});
}

TEST(ReshardOptionsTest, WrongFlagsAreRefusedInOneLine) {
  GoldenMessages golden("stretto-bench");
  const auto refused = [&](const absl::StatusOr<ReshardOptions>& options, const Words& facts) {
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    golden.Add(std::string(options.status().message()), facts);
  };
  refused(ParseReshardOptions({"--gbps", "1"}), {"--rendezvous"});
  refused(ParseReshardOptions({"--rendezvous", ::testing::TempDir()}), {"--gbps"});
  for (const auto& [arguments, facts] : std::vector<std::pair<Words, Words>>{
           {{"--cases", "alpa6"}, {"--cases", "'alpa6'", "alpa7"}},
           {{"--modes", "chain,ring"}, {"--modes", "'ring'", "gather"}},
           {{"--senders", "last"}, {"--senders", "'last'", "balanced"}},
           {{"--orders", "random"}, {"--orders", "'random'", "planned"}},
           {{"--gbps", "0"}, {"--gbps", "0", "from 1e-6 to 1e6"}},
           {{"--rank", "8"}, {"--rank", "8", "0 to 7"}},
           {{"--mebibytes", "0"}, {"--mebibytes", "0", "1 to 1024"}},
           {{"--latency-us", "-1"}, {"--latency-us", "-1", "from 0 to 1e9"}},
           {{"--tempo"}, {"--tempo", "stretto-bench reshard --help"}}}) {
    Words all = {"--rendezvous", ::testing::TempDir()};
    if (arguments[0] != "--gbps") all.insert(all.end(), {"--gbps", "1"});
    all.insert(all.end(), arguments.begin(), arguments.end());
    refused(ParseReshardOptions(all), facts);
  }
}

}  // namespace
}  // namespace stretto::bench
