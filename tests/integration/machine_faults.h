// SPDX-License-Identifier: Apache-2.0
#pragma once
// Faults of what lies under the processes of a test: its disk and its network. Only this process
// and those that it starts afterwards see them.

#include <set>
#include <string>

namespace stretto::integration {

// A file system of `kib` KiB at `path`, in a mount namespace of this process. Unmounted with this
// object.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, int kib);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // From now on nothing can be written. No file may be open for writing.
  void MakeReadOnly();

  // Empty, or the reason why there is no such disk.
  const std::string& why_not() const { return why_not_; }

 private:
  std::string path_;
  std::string why_not_;
};

// A disk of ext4 at `path`, on a file, in a mount namespace of this process. Unmounted with this
// object. Needs root and a loop device.
class FailingDisk {
 public:
  // `image` is a new file.
  FailingDisk(const std::string& path, const std::string& image);
  ~FailingDisk();
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  // From now on nothing can be written, also to files that are open: what the kernel does when the
  // device returns errors. It cannot be made writable in place.
  void Fail();
  // Unmounts, checks and mounts it again. No file of it may be open.
  void Repair();

  // Empty, or the reason why there is no such disk.
  const std::string& why_not() const { return why_not_; }

 private:
  bool Mount() const;

  const std::string path_, image_;
  std::string why_not_;
};

// Writes the file until the disk is full.
void FillDisk(const std::string& path);

// A network namespace of this process in which addresses of 127.0.0.0/8 can be cut off.
// Connections stay open while nothing that is sent arrives, as with a broken cable. Whole again
// when this object ends.
class Network {
 public:
  Network();
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Empty, or the reason why there is no such network.
  const std::string& why_not() const { return why_not_; }
  // Drops everything from and to these addresses ("127.0.1.0/24").
  void Cut(const std::string& addresses);
  void Heal(const std::string& addresses);
  // Drops everything from the addresses `from` and to the addresses `to`, and lets the rest pass:
  // of two that are connected, whichever of them made the connection, what `to` sends still
  // arrives.
  void CutOneWay(const std::string& from, const std::string& to);

 private:
  void Drop(const std::string& what);     // "to 127.0.1.0/24"
  void Restore(const std::string& what);  // the same

  std::string why_not_;
  std::set<std::string> dropped_;
};

}  // namespace stretto::integration
