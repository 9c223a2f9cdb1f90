// SPDX-License-Identifier: Apache-2.0
#pragma once
// A disk under SQLite that may lose power at any write. What was synced stays. Of each write since
// then any sectors of 512 bytes may have reached the disk, in any order.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct sqlite3_file;
struct sqlite3_vfs;

namespace stretto::coordinator::testing {

// While this object lives, every database that is opened is on this disk. One at a time, and one
// thread.
class TornDisk {
 public:
  TornDisk();
  ~TornDisk();
  TornDisk(const TornDisk&) = delete;
  TornDisk& operator=(const TornDisk&) = delete;

  // The disk takes `writes` more writes and then nothing, until Crash.
  void DieAfter(int64_t writes) { writes_left_ = writes; }
  bool dead() const { return writes_left_ < 0; }

  // Loses what was not synced, as `pick(n)` < n draws it, and works again. No database may be open.
  void Crash(const std::function<uint64_t(uint64_t)>& pick);
  // Before the last database is closed: nothing that it does on its way reaches the disk.
  void Die() { writes_left_ = -1; }

 private:
  friend struct TornFile;
  struct Write {
    int64_t offset = 0;
    std::string before;       // what was there
    int64_t size_before = 0;  // of the file
  };

  bool Takes() { return writes_left_ >= 0 && --writes_left_ >= 0; }

  std::unique_ptr<sqlite3_vfs> vfs_;
  int64_t writes_left_ = INT64_MAX;
  std::map<std::string, std::vector<Write>> unsynced_;  // by path, in order
};

}  // namespace stretto::coordinator::testing
