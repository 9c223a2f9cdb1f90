// SPDX-License-Identifier: Apache-2.0

// Data that is cut off while a process reads it, in child processes: the signal's handler is the
// whole process's.

#include "worker/data/mapping_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "worker/data/mapped_file.h"

namespace stretto {
namespace {

class MappingFaultsTest : public ::testing::Test {
 protected:
  MappingFaultsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "stretto-mapping-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    path_ = folder_ + "/corpus.bin";
    other_ = folder_ + "/other.bin";
    for (const std::string& path : {path_, other_})
      EXPECT_TRUE(WriteFileAtomic(path, std::string(kBytes, '\1')).ok());
  }
  ~MappingFaultsTest() override { std::filesystem::remove_all(folder_); }

  static int64_t Sum(const MappedFile& file) {
    return std::accumulate(file.data(), file.data() + file.size(), int64_t{0});
  }
  // Reads both files, one of which has lost all but its first 4 KiB.
  void ReadCutFile() const {
    const MappedFile file = *MappedFile::Open(path_), other = *MappedFile::Open(other_);
    if (!MappingFault().ok()) std::_Exit(3);
    std::filesystem::resize_file(path_, 4096);
    const int64_t sum = Sum(file), sum_of_other = Sum(other);
    std::fprintf(stderr, "%ld %ld %s", static_cast<long>(sum), static_cast<long>(sum_of_other),
                 MappingFault().ToString().c_str());
    std::_Exit(sum == 4096 && sum_of_other == kBytes && !MappingFault().ok() ? 0 : 4);
  }

  static constexpr int64_t kBytes = 1 << 20;
  std::string folder_, path_, other_;
};

using MappingFaultsDeathTest = MappingFaultsTest;

TEST_F(MappingFaultsDeathTest, TheFileIsNamedAndTheProcessContinues) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CatchMappingFaults();
        ReadCutFile();
      },
      ::testing::ExitedWithCode(0),
      "4096 1048576 DATA_LOSS: .*/corpus.bin: found fewer bytes than when it was opened");
}

TEST_F(MappingFaultsDeathTest, WithoutTheHandlerTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ReadCutFile(), ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappingFaultsDeathTest, OtherMemoryIsNoMatterOfTheHandler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CatchMappingFaults();
        std::raise(SIGBUS);
        std::raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(MappingFaultsTest, NothingIsWrongBefore) {
  EXPECT_EQ(Sum(*MappedFile::Open(path_)), kBytes);
  EXPECT_TRUE(MappingFault().ok());
}

}  // namespace
}  // namespace stretto
