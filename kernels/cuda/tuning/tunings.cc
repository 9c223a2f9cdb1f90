// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tuning/tunings.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace stretto::cuda {

TuningKey Pinned(TuningKey key, const PinnedTo& to) {
  if (TokensAreColumns(key.product)) key.product.n = to.tokens;
  key.sms = to.sms_left;
  return key;
}

const Algorithm* Tunings::Find(const TuningKey& key) const {
  const auto at = algorithms_.find(key);
  return at == algorithms_.end() ? nullptr : &at->second;
}

const AttentionTimes* Tunings::Find(const AttentionKey& key) const {
  const auto at = attention_.find(key);
  return at == attention_.end() ? nullptr : &at->second;
}

std::string Tunings::FileName() const {
  std::string name = absl::StrCat("tuning-", device_, "-", library_version_, ".txt");
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return name;
}

absl::Status Tunings::Load(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", FileName());
  std::ifstream file(path);
  if (!file) return absl::OkStatus();
  std::ostringstream text;
  text << file.rdbuf();
  const absl::Status status = Parse(text.str());
  if (status.ok()) return status;
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

absl::Status Tunings::Save(const std::string& folder) const {
  Tunings merged = *this;
  merged.Load(folder).IgnoreError();
  const std::string path = absl::StrCat(folder, "/", FileName());
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream file(temporary, std::ios::trunc);
  file << merged.Print();
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(temporary.c_str());
    return absl::UnavailableError(absl::StrCat("write ", path, ": ", why));
  }
  return absl::OkStatus();
}

}  // namespace stretto::cuda
