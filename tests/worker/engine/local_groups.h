// SPDX-License-Identifier: Apache-2.0
#pragma once
// Communicators of the groups of a job whose ranks are threads of this process.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/comm/local/local.h"
#include "worker/engine/program/program.h"

namespace stretto {

// One thread at a time.
class LocalGroups {
 public:
  // Makes the communicators of all ranks of a group of this size.
  using Create = std::function<std::vector<std::unique_ptr<Communicator>>(int size)>;

  explicit LocalGroups(Create create = LocalGroup::Create) : create_(std::move(create)) {}

  // Returns the rank's communicator of a group, once for each.
  std::unique_ptr<Communicator> Join(const Group& group, Rank rank) {
    auto& members = groups_[{group.name, group.ranks.front()}];
    if (members.empty()) members = create_(static_cast<int>(group.ranks.size()));
    const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
    return std::move(members[static_cast<size_t>(place - group.ranks.begin())]);
  }

 private:
  const Create create_;
  // Groups of one name are told apart by their first rank.
  std::map<std::pair<std::string, Rank>, std::vector<std::unique_ptr<Communicator>>> groups_;
};

}  // namespace stretto
