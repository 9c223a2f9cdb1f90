// SPDX-License-Identifier: Apache-2.0
#pragma once
// A TCP connection that can be cut: a relay in front of a port. While it is cut, bytes stay where
// they are and no connection closes, as when a network loses all packets.

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/files.h"
#include "proto/base/mutex.h"

namespace stretto::integration {

class CutLink {
 public:
  // Listens on a free port of 127.0.0.1 and relays to `port` there.
  explicit CutLink(const std::string& port);
  ~CutLink();
  CutLink(const CutLink&) = delete;
  CutLink& operator=(const CutLink&) = delete;

  std::string address() const { return address_; }
  void Cut() { SetCut(true); }
  void Heal() { SetCut(false); }

 private:
  struct Way {
    int from = -1, to = -1;
  };

  void SetCut(bool cut);
  void Run();
  void Accept();
  // Moves what has come; false once no more will.
  static bool Move(const Way& way, bool readable);

  const int port_;
  std::string address_;
  FileDescriptor listener_, wake_;
  Mutex mu_;
  bool cut_ GUARDED_BY(mu_) = false;
  bool stop_ GUARDED_BY(mu_) = false;
  std::vector<std::pair<Way, Way>> connections_;  // of the relaying thread
  std::thread thread_;
};

}  // namespace stretto::integration
