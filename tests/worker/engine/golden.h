// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts that are compared with files of tests/golden. STRETTO_REWRITE=1 writes the files anew.

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace stretto {

// Expects the text of tests/golden/NAME.txt.
inline void ExpectGoldenText(const std::string& name, const std::string& text) {
  const std::string path = std::string(STRETTO_SOURCE_DIR) + "/tests/golden/" + name + ".txt";
  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    std::ofstream file(path);
    file << text;
    ASSERT_TRUE(file.good()) << path;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << "set STRETTO_REWRITE=1 to accept the new " << path;
}

}  // namespace stretto
