// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/token_chooser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stretto {
namespace {

using testing::HasSubstr;

// Logits of these probabilities.
std::vector<float> LogitsOf(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<double> NucleusOf(const std::vector<float>& logits, double temperature, double top_p) {
  std::vector<double> probabilities(logits.size(), 0);
  for (const WeightedToken& token : Nucleus(logits, temperature, top_p)) {
    EXPECT_EQ(probabilities[static_cast<size_t>(token.token)], 0);
    probabilities[static_cast<size_t>(token.token)] = token.probability;
  }
  return probabilities;
}

void ExpectDistribution(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    // Logits are f32.
    EXPECT_NEAR(found[i], expected[i], 1e-6) << i;
    EXPECT_EQ(found[i] == 0, expected[i] == 0) << i;
  }
}

TEST(NucleusTest, IsTheSoftmaxWithoutACut) {
  ExpectDistribution(NucleusOf(LogitsOf({0.1, 0.5, 0.15, 0.25}), 1, 1), {0.1, 0.5, 0.15, 0.25});
}

TEST(NucleusTest, KeepsTheFewestThatReachTopP) {
  const std::vector<float> logits = LogitsOf({0.1, 0.5, 0.15, 0.25});
  ExpectDistribution(NucleusOf(logits, 1, 0.8), {0, 0.5 / 0.9, 0.15 / 0.9, 0.25 / 0.9});
  ExpectDistribution(NucleusOf(logits, 1, 0.74), {0, 2.0 / 3, 0, 1.0 / 3});
  ExpectDistribution(NucleusOf(logits, 1, 0.4), {0, 1, 0, 0});
  ExpectDistribution(NucleusOf(logits, 1, 1e-9), {0, 1, 0, 0});
}

TEST(NucleusTest, LowerTokensFirstAmongEquals) {
  ExpectDistribution(NucleusOf({2, 2, 2, 2}, 1, 0.6), {1.0 / 3, 1.0 / 3, 1.0 / 3, 0});
}

TEST(NucleusTest, TemperatureSharpensAndFlattensBeforeTheCut) {
  const std::vector<float> logits = LogitsOf({0.2, 0.8});
  // Probabilities to the power of 1 / temperature, normalised.
  ExpectDistribution(NucleusOf(logits, 0.5, 1), {0.04 / 0.68, 0.64 / 0.68});
  ExpectDistribution(NucleusOf(logits, 2, 1), {1.0 / 3, 2.0 / 3});
  ExpectDistribution(NucleusOf(logits, 0.5, 0.9), {0, 1});
  ExpectDistribution(NucleusOf(logits, 1, 0.9), {0.2, 0.8});
}

TEST(NucleusTest, LogitsThatAreFarApartStayFinite) {
  ExpectDistribution(NucleusOf({-3e38f, 3e38f}, 1, 1), {0, 1});
  ExpectDistribution(NucleusOf({1, 2}, 1e-300, 1), {0, 1});
}

TEST(ChooseTokenTest, TemperatureZeroIsTheLowestOfTheLikeliest) {
  EXPECT_EQ(*ChooseToken({1, 3, 2, 3}, 0, {.temperature = 0}), 1);
  EXPECT_EQ(*ChooseToken({1, 3, 2, 3}, 9, {.temperature = 0, .top_p = 0.1, .seed = 7}), 1);
}

// Frequencies of 20,000 positions; a standard deviation is below 0.0036.
std::vector<double> Frequencies(const std::vector<float>& logits, const ChoiceOptions& options) {
  constexpr int kDraws = 20'000;
  std::vector<double> found(logits.size(), 0);
  for (int position = 0; position < kDraws; ++position) {
    found[static_cast<size_t>(*ChooseToken(logits, position, options))] += 1.0 / kDraws;
  }
  return found;
}

TEST(ChooseTokenTest, DrawsFromTheNucleus) {
  const std::vector<float> logits = LogitsOf({0.1, 0.5, 0.15, 0.25});
  const std::vector<double> all = Frequencies(logits, {.temperature = 1, .seed = 11});
  const std::vector<double> some =
      Frequencies(logits, {.temperature = 1, .top_p = 0.7, .seed = 12});
  const std::vector<double> expected_all = {0.1, 0.5, 0.15, 0.25};
  const std::vector<double> expected_some = {0, 2.0 / 3, 0, 1.0 / 3};
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(all[i], expected_all[i], 0.015) << i;
    EXPECT_NEAR(some[i], expected_some[i], 0.015) << i;
  }
  EXPECT_EQ(some[0], 0);
  EXPECT_EQ(some[2], 0);
}

TEST(ChooseTokenTest, ADrawDependsOnSeedAndPositionAlone) {
  const std::vector<float> logits(1000, 1.0f);
  const auto choose = [&](int64_t position, uint64_t seed) {
    return *ChooseToken(logits, position, {.temperature = 1, .seed = seed});
  };
  EXPECT_EQ(choose(5, 1), choose(5, 1));
  int same_position = 0, same_seed = 0;
  for (int i = 0; i < 100; ++i) {
    same_position += choose(i, 1) == choose(i, 2);
    same_seed += choose(i, 1) == choose(i + 1, 1);
  }
  EXPECT_LT(same_position, 5);
  EXPECT_LT(same_seed, 5);
}

TEST(ChooseTokenTest, LogitThatIsNotFiniteIsAnError) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (const float value : bad) {
    for (const double temperature : {0.0, 1.0}) {
      const auto token = ChooseToken({1, 2, value}, 17, {.temperature = temperature});
      EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(token.status().message(), HasSubstr("position 17: found "));
      EXPECT_THAT(token.status().message(), HasSubstr("as the logit of token 2, expected"));
    }
  }
}

TEST(ChoiceOptionsTest, ValuesOutsideTheirRangeAreRefused) {
  EXPECT_TRUE(Validate(ChoiceOptions{.temperature = 0, .top_p = 1}).ok());
  for (const double temperature : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THAT(Validate(ChoiceOptions{.temperature = temperature}).message(),
                HasSubstr("temperature: found "));
  }
  for (const double top_p : {0.0, -0.5, 1.5, std::nan("")}) {
    EXPECT_THAT(Validate(ChoiceOptions{.top_p = top_p}).message(),
                HasSubstr("expected a number in (0, 1]"));
  }
}

}  // namespace
}  // namespace stretto
