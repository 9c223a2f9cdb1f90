// SPDX-License-Identifier: Apache-2.0

// Paths that others may change are opened beneath their root, by the kernel and by parts alike.

#include "proto/base/beneath.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// FOLDER/root is confined; FOLDER/outside/secret is what nobody may reach from there.
class BeneathFolder {
 public:
  BeneathFolder() {
    char path[] = "/tmp/stretto.XXXXXX";
    EXPECT_NE(::mkdtemp(path), nullptr);
    folder_ = path;
    fs::create_directories(folder_ + "/root/sub");
    fs::create_directories(folder_ + "/outside");
    Spill("/root/sub/file", "inside");
    Spill("/outside/file", "secret");
  }
  ~BeneathFolder() { fs::remove_all(folder_); }
  BeneathFolder(const BeneathFolder&) = delete;
  BeneathFolder& operator=(const BeneathFolder&) = delete;

  std::string root() const { return folder_ + "/root"; }
  std::string outside() const { return folder_ + "/outside"; }
  void Spill(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + name) << text;
  }
  // Puts a link to the outside where the folder `sub` was, as an attacker does between a check and
  // an open.
  void SwapSub() const {
    fs::rename(root() + "/sub", root() + "/was");
    fs::create_symlink("../outside", root() + "/sub");
  }
  std::vector<std::string> Outside() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(outside()))
      names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  std::string folder_;
};

using Opener = absl::StatusOr<FileDescriptor> (*)(const std::string&, const std::string&, int,
                                                  mode_t, Links);

class OpenBeneathTest : public ::testing::TestWithParam<Opener> {
 protected:
  absl::StatusOr<FileDescriptor> Open(const std::string& name, int flags = O_RDONLY,
                                      Links links = Links::kBeneath) const {
    return GetParam()(folder_.root(), name, flags, 0640, links);
  }
  std::string Read(const std::string& name, Links links = Links::kBeneath) const {
    const absl::StatusOr<FileDescriptor> file = Open(name, O_RDONLY, links);
    if (!file.ok()) return std::string(absl::StatusCodeToString(file.status().code()));
    char text[16] = {};
    EXPECT_GE(::read(file->get(), text, sizeof(text) - 1), 0);
    return text;
  }
  void Link(const std::string& to, const std::string& name) const {
    fs::create_symlink(to, folder_.root() + "/" + name);
  }
  BeneathFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Both, OpenBeneathTest,
                         ::testing::Values(&OpenBeneath, &OpenBeneathByParts),
                         [](const auto& info) { return info.index == 0 ? "Kernel" : "Parts"; });

TEST_P(OpenBeneathTest, WhatIsBeneathIsOpened) {
  EXPECT_EQ(Read("sub/file"), "inside");
  EXPECT_EQ(Read("./sub//./file"), "inside");
  EXPECT_EQ(Read("sub/../sub/file"), "inside");
  EXPECT_TRUE(Open("sub", O_RDONLY | O_DIRECTORY).ok());
  EXPECT_TRUE(Open(".", O_RDONLY | O_DIRECTORY).ok());
  EXPECT_EQ(Read("none"), "NOT_FOUND");
  EXPECT_EQ(Read("sub/file/more"), "UNAVAILABLE");  // not a folder
}

TEST_P(OpenBeneathTest, LinksAreFollowedAsLongAsTheyStayBeneath) {
  Link("sub/file", "a");
  Link("../sub/../a", "sub/b");
  Link("sub", "c");
  EXPECT_EQ(Read("a"), "inside");
  EXPECT_EQ(Read("sub/b"), "inside");
  EXPECT_EQ(Read("c/b"), "inside");
  EXPECT_EQ(Read("c/file", Links::kNone), "PERMISSION_DENIED");
  EXPECT_EQ(Read("a", Links::kNone), "PERMISSION_DENIED");
  EXPECT_EQ(Read("sub/file", Links::kNone), "inside");
}

TEST_P(OpenBeneathTest, NothingLeadsOut) {
  Link("../outside/file", "up");
  Link("..", "parent");
  Link(folder_.outside() + "/file", "absolute");
  Link("/proc/self/root" + folder_.outside() + "/file", "magic");
  Link("up", "chain");
  for (const char* name :
       {"up", "parent/outside/file", "absolute", "magic", "chain", "../outside/file",
        "sub/../../outside/file", "sub/../parent/outside/file"}) {
    EXPECT_EQ(Read(name), "PERMISSION_DENIED") << name;
    EXPECT_EQ(Open(name, O_WRONLY | O_CREAT | O_TRUNC).status().code(),
              absl::StatusCode::kPermissionDenied)
        << name;
  }
  std::ifstream file(folder_.outside() + "/file");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "secret");
  EXPECT_THAT(std::string(Open("up").status().message()),
              HasSubstr("/root/up: found a symbolic link that leads out of "));
}

TEST_P(OpenBeneathTest, LinksThatNeverEndAreRefused) {
  Link("loop", "loop");
  EXPECT_EQ(Read("loop"), "PERMISSION_DENIED");
  EXPECT_EQ(Read("loop/file"), "PERMISSION_DENIED");
}

TEST_P(OpenBeneathTest, FilesAreMadeBeneath) {
  EXPECT_TRUE(Open("sub/new", O_WRONLY | O_CREAT).ok());
  EXPECT_TRUE(Open("sub/new", O_WRONLY | O_CREAT).ok());
  EXPECT_EQ(Open("sub/new", O_WRONLY | O_CREAT | O_EXCL).status().code(),
            absl::StatusCode::kAlreadyExists);
  Link("sub/through", "dangling");
  EXPECT_EQ(Open("dangling", O_WRONLY | O_CREAT | O_EXCL).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Open("dangling", O_WRONLY | O_CREAT).ok());
  EXPECT_TRUE(fs::exists(folder_.root() + "/sub/through"));
  EXPECT_EQ(Open("dangling", O_RDONLY | O_NOFOLLOW).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_P(OpenBeneathTest, PipesAreNeitherWaitedForNorOpened) {
  ASSERT_EQ(::mkfifo((folder_.root() + "/pipe").c_str(), 0600), 0);
  const absl::Status status = Open("pipe").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected a regular file"));
  EXPECT_FALSE(Open("pipe", O_WRONLY).ok());
}

// While somebody exchanges the folder and a link to the outside, a thousand opens read one or fail.
TEST_P(OpenBeneathTest, ASwapDuringAnOpenLeadsNowhere) {
  fs::create_symlink("../outside", folder_.root() + "/link");
  std::atomic<bool> end{false};
  std::thread attacker([&] {
    const std::string sub = folder_.root() + "/sub", link = folder_.root() + "/link";
    while (!end.load()) ::renameat2(AT_FDCWD, sub.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
  });
  for (int i = 0; i < 1000; ++i) {
    const std::string found = Read("sub/file");
    EXPECT_NE(found, "secret");
  }
  end.store(true);
  attacker.join();
}

class ConfineTest : public ::testing::Test {
 protected:
  ConfineTest() { Confine(folder_.root(), Links::kBeneath); }
  BeneathFolder folder_;
};

TEST_F(ConfineTest, APathThatWasCheckedAndThenSwappedIsRefused) {
  const absl::StatusOr<std::string> checked = PathBeneath(folder_.root(), "sub/file");
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(*ReadFile(*checked), "inside");
  folder_.SwapSub();
  EXPECT_TRUE(FileDescriptor(::open(checked->c_str(), O_RDONLY | O_CLOEXEC)).valid());
  const absl::Status status = ReadFile(*checked).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("sub/file: found a symbolic link"));
  EXPECT_EQ(ReadSmallFile(*checked, 100).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(ConfineTest, NothingIsWrittenMovedOrRemovedOutside) {
  const std::string sub = folder_.root() + "/sub";
  folder_.SwapSub();
  EXPECT_EQ(WriteFileAtomic(sub + "/new", "x").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(MakeFolders(sub + "/a/b").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RenameFile(sub + "/file", folder_.root() + "/mine").code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RenameFile(folder_.root() + "/was/file", sub + "/file").code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(RemoveTree(sub + "/file").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(SyncPath(sub + "/file").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(folder_.Outside(), ::testing::ElementsAre("file"));
}

TEST_F(ConfineTest, ALinkIsRemovedAndWhatItLeadsToStays) {
  folder_.SwapSub();
  EXPECT_TRUE(RemoveTree(folder_.root() + "/sub").ok());
  EXPECT_FALSE(fs::is_symlink(folder_.root() + "/sub"));
  fs::create_symlink("../../outside", folder_.root() + "/was/link");
  EXPECT_TRUE(RemoveTree(folder_.root() + "/was").ok());
  EXPECT_FALSE(fs::exists(folder_.root() + "/was"));
  EXPECT_TRUE(RemoveTree(folder_.root() + "/was/none").ok());
  EXPECT_THAT(folder_.Outside(), ::testing::ElementsAre("file"));
}

TEST_F(ConfineTest, AListIsOfAFolderBeneath) {
  fs::create_symlink("sub", folder_.root() + "/link");
  fs::create_symlink("sub/file", folder_.root() + "/file");
  fs::create_symlink("../outside", folder_.root() + "/out");
  std::map<std::string, bool> found;
  const auto entries = ListFolder(folder_.root());
  ASSERT_TRUE(entries.ok()) << entries.status();
  for (const FolderEntry& entry : *entries) found[entry.name] = entry.folder;
  EXPECT_TRUE(found.at("sub"));
  EXPECT_TRUE(found.at("link"));
  EXPECT_FALSE(found.at("file"));
  EXPECT_FALSE(found.at("out"));
  EXPECT_EQ(ListFolder(folder_.root() + "/out").status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_FALSE(ListFolder(folder_.root() + "/sub/file").ok());
  EXPECT_EQ(ListFolder(folder_.root() + "/none").status().code(), absl::StatusCode::kNotFound);
  folder_.SwapSub();
  EXPECT_FALSE(ListFolder(folder_.root() + "/sub").ok());
}

TEST_F(ConfineTest, FoldersAreMadeMovedAndRemovedBeneath) {
  const std::string made = folder_.root() + "/a/b/c";
  EXPECT_TRUE(MakeFolders(made).ok());
  EXPECT_TRUE(MakeFolders(made).ok());
  EXPECT_TRUE(WriteFileAtomic(made + "/file", "text").ok());
  EXPECT_EQ(*ReadFile(made + "/file"), "text");
  EXPECT_TRUE(RenameFile(folder_.root() + "/a", folder_.root() + "/z").ok());
  EXPECT_EQ(*ReadFile(folder_.root() + "/z/b/c/file"), "text");
  EXPECT_TRUE(RemoveTree(folder_.root() + "/z").ok());
  EXPECT_FALSE(fs::exists(folder_.root() + "/z"));
}

TEST_F(ConfineTest, TheLongestRootCountsAndOtherPathsAreFree) {
  fs::create_symlink("sub", folder_.root() + "/link");
  EXPECT_EQ(*ReadFile(folder_.root() + "/link/file"), "inside");
  fs::create_symlink("file", folder_.root() + "/sub/link");
  EXPECT_EQ(*ReadFile(folder_.root() + "/sub/link"), "inside");
  Confine(folder_.root() + "/sub", Links::kNone);
  EXPECT_EQ(ReadFile(folder_.root() + "/sub/link").status().code(),
            absl::StatusCode::kPermissionDenied);
  // A name that begins alike is another folder.
  fs::create_symlink("outside/file", folder_.root() + "-beside");
  EXPECT_EQ(*ReadFile(folder_.root() + "-beside"), "secret");
  fs::remove(folder_.root() + "-beside");
}

}  // namespace
}  // namespace stretto
