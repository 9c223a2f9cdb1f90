// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace stretto::daemon {

// A folder with a short path (sockets live in it), gone with the object.
class TempDir {
 public:
  TempDir() {
    char path[] = "/tmp/stretto.XXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    path_ = path;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace stretto::daemon
