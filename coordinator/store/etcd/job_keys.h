// SPDX-License-Identifier: Apache-2.0
#pragma once
// The uids and numbers of all stored jobs, which no two jobs may share. The leader is the only
// writer, so what it remembers is what is stored. Internal to store/etcd.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/records.h"

namespace stretto::coordinator {

class JobKeys {
 public:
  // Errors: AlreadyExists (the uid or number belongs to another job); nothing has changed then.
  absl::Status Put(const JobRecord& job);
  void Erase(const std::string& id);
  // Reverts, or accepts, what was changed since the last of either.
  void Undo();
  void Keep() { before_.clear(); }

 private:
  struct Keys {
    std::string uid;
    int64_t number = 0;
  };
  void Set(const std::string& id, std::optional<Keys> keys);

  std::map<std::string, Keys> jobs_;  // by id
  std::map<std::string, std::string> by_uid_;
  std::map<int64_t, std::string> by_number_;
  std::vector<std::pair<std::string, std::optional<Keys>>> before_;  // of each change
};

}  // namespace stretto::coordinator
