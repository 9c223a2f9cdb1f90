// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_split.h"
#include "worker/engine/exec/plugin/loader.h"

namespace stretto {
namespace {

std::vector<std::string> FoldersOf(const char* variable) {
  const char* value = std::getenv(variable);
  return absl::StrSplit(value == nullptr ? "" : value, ':', absl::SkipEmpty());
}

}  // namespace

PluginOptions CudaPluginOptions() {
  PluginOptions options{.file = "libstretto_cuda.so",
                        .driver = "libcuda.so.1",
                        .libraries = absl::StrSplit(STRETTO_CUDA_SONAMES, ':', absl::SkipEmpty()),
                        .library_folders = FoldersOf("STRETTO_CUDA_LIBRARIES")};
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path folder = program.parent_path();
    options.folders = {folder.string(), (folder.parent_path() / "lib/stretto").string()};
  }
  for (std::string& folder : FoldersOf("STRETTO_PLUGIN_PATH"))
    options.folders.push_back(std::move(folder));
  return options;
}

std::string CudaLibrary(const std::string& file) {
  const std::string path = FindFile(FoldersOf("STRETTO_CUDA_LIBRARIES"), file);
  return path.empty() ? file : path;
}

}  // namespace stretto
