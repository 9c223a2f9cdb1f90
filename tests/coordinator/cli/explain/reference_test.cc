// SPDX-License-Identifier: Apache-2.0

// docs/reference is what the program generates. STRETTO_REWRITE=1 writes it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "coordinator/cli/app.h"
#include "proto/base/files.h"

namespace stretto::cli {
namespace {

class ReferenceTest : public ::testing::TestWithParam<const char*> {
 protected:
  // With no home but "~", so that defaults name nobody's.
  static std::string Generated(const std::string& name) {
    std::ostringstream out, err;
    Terminal terminal{.out = out, .err = err};
    Interrupt interrupt;
    const AppEnvironment environment{
        .terminal = terminal,
        .interrupt = interrupt,
        .variable = [](const std::string& name) { return name == "HOME" ? "~" : ""; },
        .binary_dir = STRETTO_BINARY_DIR};
    EXPECT_EQ(RunApp({"explain", "--markdown", name}, environment), kOk) << err.str();
    return out.str();
  }
};

TEST_P(ReferenceTest, IsWhatTheProgramGenerates) {
  const std::string path =
      std::string(STRETTO_SOURCE_DIR) + "/docs/reference/" + GetParam() + ".md";
  const std::string generated = Generated(GetParam());
  if (std::getenv("STRETTO_REWRITE") != nullptr) std::ofstream(path) << generated;
  const auto committed = ReadFile(path);
  ASSERT_TRUE(committed.ok()) << committed.status();
  EXPECT_EQ(*committed, generated) << "STRETTO_REWRITE=1 rewrites " << path;
}

INSTANTIATE_TEST_SUITE_P(All, ReferenceTest, ::testing::Values("job-spec", "api", "cli"),
                         [](const auto& info) {
                           std::string name = info.param;
                           if (name == "job-spec") name = "job_spec";
                           return name;
                         });

}  // namespace
}  // namespace stretto::cli
