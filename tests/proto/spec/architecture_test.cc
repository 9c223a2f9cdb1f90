// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/architecture.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto {
namespace {

// "gpt" -> FAMILY_GPT
std::string InApi(std::string name) {
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return "FAMILY_" + name;
}

TEST(ArchitectureTest, EveryFamilyOfTheApiHasARow) {
  for (const Architecture& architecture : kArchitectures) {
    EXPECT_EQ(v1alpha1::Family_Name(static_cast<int>(architecture.family)),
              InApi(architecture.name));
  }
  for (int number = v1alpha1::Family_MIN; number <= v1alpha1::Family_MAX; ++number) {
    if (number == v1alpha1::FAMILY_UNSPECIFIED || !v1alpha1::Family_IsValid(number)) continue;
    ASSERT_NE(FindArchitecture(number), nullptr) << number;
  }
  EXPECT_EQ(kArchitectures.size(), v1alpha1::Family_descriptor()->value_count() - 1u);
}

TEST(ArchitectureTest, IsFoundByNumberAndByName) {
  for (const Architecture& architecture : kArchitectures) {
    EXPECT_EQ(&ArchitectureOf(architecture.family), &architecture);
    EXPECT_EQ(FindArchitecture(static_cast<int>(architecture.family)), &architecture);
    EXPECT_EQ(FindArchitecture(architecture.name), &architecture);
  }
  EXPECT_EQ(FindArchitecture(v1alpha1::FAMILY_UNSPECIFIED), nullptr);
  EXPECT_EQ(FindArchitecture(99), nullptr);
  EXPECT_EQ(FindArchitecture(""), nullptr);
  EXPECT_EQ(FindArchitecture("Llama"), nullptr);
}

TEST(ArchitectureTest, AGatedMlpIsNarrower) {
  EXPECT_EQ(DefaultFfnHidden(ArchitectureOf(Family::kGpt), 768), 3072);
  // 2048 is a multiple of 256 already; 8/3 * 4096 is 10922.
  EXPECT_EQ(DefaultFfnHidden(ArchitectureOf(Family::kLlama), 768), 2048);
  EXPECT_EQ(DefaultFfnHidden(ArchitectureOf(Family::kLlama), 4096), 11008);
}

}  // namespace
}  // namespace stretto
