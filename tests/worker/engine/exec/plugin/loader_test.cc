// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/plugin/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace stretto {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kFakes[] = STRETTO_FAKES;

std::string MessageOf(const PluginOptions& options, absl::StatusCode code) {
  const absl::StatusOr<const BackendPlugin*> plugin = LoadPlugin(options);
  EXPECT_EQ(plugin.status().code(), code) << plugin.status();
  return std::string(plugin.status().message());
}

TEST(PluginTest, IsFoundInTheFirstFolderThatHasIt) {
  const auto plugin =
      LoadPlugin({.file = "libfake_plugin.so", .folders = {"/no/such/folder", kFakes}});
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto devices = (*plugin)->devices();
  ASSERT_TRUE(devices.ok());
  EXPECT_EQ(devices->at(0).name, "fake");
}

TEST(PluginTest, WithoutAFileNamesTheFolders) {
  EXPECT_THAT(
      MessageOf({.file = "libabsent.so", .folders = {"/a", kFakes}}, absl::StatusCode::kNotFound),
      AllOf(HasSubstr("plug-in libabsent.so: found none in /a, " + std::string(kFakes)),
            HasSubstr("STRETTO_PLUGIN_PATH"), HasSubstr("STRETTO_CUDA=ON")));
}

TEST(PluginTest, WithoutADriverSaysSo) {
  EXPECT_THAT(
      MessageOf(
          {.file = "libfake_plugin.so", .folders = {kFakes}, .driver = "libabsent_driver.so.1"},
          absl::StatusCode::kFailedPrecondition),
      AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("libabsent_driver.so.1")));
}

TEST(PluginTest, OfAnotherBuildIsRefusedWithBothNames) {
  EXPECT_THAT(MessageOf({.file = "libfake_other_build.so", .folders = {kFakes}},
                        absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("libfake_other_build.so"), HasSubstr("found build 'another build'"),
                    HasSubstr(BuildIdentity())));
}

TEST(PluginTest, WithoutTheSymbolIsNoPluginOfOurs) {
  EXPECT_THAT(MessageOf({.file = "libfake_no_symbol.so", .folders = {kFakes}},
                        absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("found no symbol stretto_backend_plugin"),
                    HasSubstr("libfake_no_symbol.so")));
}

TEST(PluginTest, ThatIsNoLibraryCannotBeOpened) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "/libtext.so") << std::string(1000, 'x');
  EXPECT_THAT(
      MessageOf({.file = "libtext.so", .folders = {folder}}, absl::StatusCode::kFailedPrecondition),
      AllOf(HasSubstr("libtext.so: cannot open"), HasSubstr("invalid ELF header")));
}

// In one test, because an open library stays open.
TEST(PluginTest, NeedsItsLibrariesFromAFolderOrTheSystem) {
  PluginOptions options{
      .file = "libfake_needs_vendor.so", .folders = {kFakes}, .libraries = {"libfake_vendor.so"}};
  EXPECT_THAT(MessageOf(options, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("CUDA library libfake_vendor.so: found neither"),
                    HasSubstr("STRETTO_CUDA_LIBRARIES")));

  const std::string damaged = testing::TempDir() + "/damaged";
  ASSERT_EQ(std::system(("mkdir -p " + damaged).c_str()), 0);
  std::ofstream(damaged + "/libfake_vendor.so") << "not a library";
  options.library_folders = {damaged};
  EXPECT_THAT(MessageOf(options, absl::StatusCode::kFailedPrecondition),
              AllOf(HasSubstr("CUDA library " + damaged + "/libfake_vendor.so"),
                    HasSubstr("STRETTO_CUDA_LIBRARIES")));

  options.library_folders = {"/no/such/folder", std::string(kFakes) + "/vendor"};
  const auto plugin = LoadPlugin(options);
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_TRUE((*plugin)->devices().ok());
}

TEST(PluginOptionsTest, ComeFromTheProgramAndTheEnvironment) {
  setenv("STRETTO_PLUGIN_PATH", "/plugins/a::/plugins/b", 1);
  setenv("STRETTO_CUDA_LIBRARIES", "/cuda/a", 1);
  const PluginOptions options = CudaPluginOptions();
  EXPECT_EQ(options.file, "libstretto_cuda.so");
  EXPECT_EQ(options.driver, "libcuda.so.1");
  const std::string installed =
      std::filesystem::path(STRETTO_BINARY_DIR).parent_path() / "lib/stretto";
  EXPECT_THAT(options.folders,
              testing::ElementsAre(STRETTO_BINARY_DIR, installed, "/plugins/a", "/plugins/b"));
  EXPECT_THAT(options.library_folders, testing::ElementsAre("/cuda/a"));
}

TEST(CudaLibraryTest, IsTheFirstFoldersElseTheSystems) {
  setenv("STRETTO_CUDA_LIBRARIES", ("/no/such/folder:" + std::string(kFakes)).c_str(), 1);
  EXPECT_EQ(CudaLibrary("libfake_plugin.so"), std::string(kFakes) + "/libfake_plugin.so");
  EXPECT_EQ(CudaLibrary("libabsent.so.2"), "libabsent.so.2");
}

TEST(ArchitectureTest, RunsOnTheSameMajorNumberAndWithALetterOnThatOneAlone) {
  const auto check = [](int major, int minor) {
    return CheckArchitecture(
        {.name = "Some GPU", .capability_major = major, .capability_minor = minor}, "80,90a");
  };
  EXPECT_TRUE(check(8, 0).ok());
  EXPECT_TRUE(check(8, 9).ok());
  EXPECT_TRUE(check(9, 0).ok());
  EXPECT_FALSE(check(7, 5).ok());
  EXPECT_FALSE(check(10, 0).ok());
  EXPECT_FALSE(check(12, 1).ok());
  EXPECT_THAT(std::string(check(10, 3).message()),
              AllOf(HasSubstr("GPU 0 (Some GPU): found compute capability 10.3"),
                    HasSubstr("expected one of 80, 90a"), HasSubstr("STRETTO_CUDA_ARCHITECTURES")));
  EXPECT_FALSE(CheckArchitecture({.capability_major = 8, .capability_minor = 0}, "86").ok());
}

}  // namespace
}  // namespace stretto
