// SPDX-License-Identifier: Apache-2.0

// A hostile network between ranks.

#include <filesystem>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/integration/hostile/hostile_test.h"

namespace stretto::integration {
namespace {

using v1alpha1::Job;

class RankAttack : public HostileTest {};

// The ports on which these processes listen, as /proc/net/tcp has them.
std::set<int> PortsOf(const std::vector<pid_t>& pids) {
  std::set<std::string> sockets;
  for (const pid_t pid : pids) {
    std::error_code error;
    for (const auto& fd :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(fd.path(), gone).string();
      if (absl::StartsWith(target, "socket:[")) {
        sockets.insert(target.substr(8, target.size() - 9));
      }
    }
  }
  std::set<int> ports;
  for (const absl::string_view line : absl::StrSplit(ContentOf("/proc/net/tcp"), '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 10 || words[3] != "0A" || !sockets.contains(words[9])) continue;
    ports.insert(std::stoi(words[1].substr(words[1].find(':') + 1), nullptr, 16));
  }
  return ports;
}

TEST_F(RankAttack, GarbageWhileTheyMeet) {
  Try("garbage to the listeners of ranks while they find each other, in 5 jobs");
  cluster_.StartWorker("node-b", 2);
  int sent = 0;
  for (int i = 0; i < 5; ++i) {
    const std::string name = absl::StrCat("meets-", i);
    ASSERT_EQ(cluster_.Run(cluster_.Submit({.name = name, .steps = 3}, {})).code, 0);
    std::vector<FileDescriptor> open;
    const auto attack = [&] {
      std::vector<pid_t> trainers;
      for (const int rank : {0, 1}) {
        std::error_code error;
        for (const auto& entry :
             std::filesystem::recursive_directory_iterator(cluster_.Path("node-b"), error)) {
          const std::string path = entry.path().string();
          if (!absl::StrContains(path, absl::StrCat("/runs/", name, "-")) ||
              !absl::EndsWith(path, absl::StrCat("/rank-", rank, "/pid"))) {
            continue;
          }
          trainers.push_back(std::atoi(ContentOf(path).c_str()));
        }
      }
      for (const int port : PortsOf(trainers)) {
        FileDescriptor fd = Dial(absl::StrCat(port));
        if (!fd.valid()) continue;
        const std::string garbage(64, static_cast<char>(sent * 37));
        Send(fd, garbage);
        open.push_back(std::move(fd));
        ++sent;
      }
    };
    Job job;
    EXPECT_TRUE(Eventually([&] {
      attack();
      job = cluster_.GetJob(name);
      return job.has_end_time();
    }));
    EXPECT_EQ(job.state(), Job::SUCCEEDED) << job.ShortDebugString();
    EXPECT_EQ(job.attempt(), 1);
    cluster_.Acknowledged(name);
  }
  EXPECT_GT(sent, 0) << "no listener was found in time: nothing was tried";
  Saw(absl::StrCat(sent, " connections, all jobs SUCCEEDED"));
  cluster_.StopWorker("node-b");
}

}  // namespace
}  // namespace stretto::integration
