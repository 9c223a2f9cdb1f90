// SPDX-License-Identifier: Apache-2.0

// Every file of tests/golden/coordinator is a scene: commands ("> ...") and, under each, all that
// the coordinator stored, sent and published, in order. Rewrite with STRETTO_REWRITE=1, read the
// diff, and commit only what you understand.

#include "tests/coordinator/core/transcript.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "proto/base/files.h"

namespace stretto::coordinator::testing {
namespace {

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& file :
       std::filesystem::directory_iterator(STRETTO_SOURCE_DIR "/tests/golden/coordinator")) {
    names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class TranscriptTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TranscriptTest, Matches) {
  const std::string path = STRETTO_SOURCE_DIR "/tests/golden/coordinator/" + GetParam() + ".txt";
  const absl::StatusOr<std::string> golden = ReadFile(path);
  ASSERT_TRUE(golden.ok()) << golden.status();

  const std::string observed = RunTranscript(*golden);

  if (std::getenv("STRETTO_REWRITE") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(path, observed).ok());
  }
  EXPECT_EQ(observed, *ReadFile(path));
}

INSTANTIATE_TEST_SUITE_P(Golden, TranscriptTest, ::testing::ValuesIn(Transcripts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace stretto::coordinator::testing
