// SPDX-License-Identifier: Apache-2.0
#pragma once
// A connection of a client as bytes, which never waits. MonitoringServer takes them from an Accept,
// so that it need not know whether they are encrypted.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "proto/base/files.h"

namespace stretto::monitoring {

// The bytes that were moved. If there are none, what to poll() for before the next attempt; 0: the
// connection has ended.
struct Moved {
  size_t bytes = 0;
  short wait_for = 0;  // POLLIN or POLLOUT
};

// One thread at a time. The peer's end is closed with the object.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual int fd() const = 0;
  // In PEM, without those of its issuers, once something was received. Empty: the peer has shown
  // none.
  virtual std::string PeerCertificate() const { return {}; }
  virtual Moved Receive(char* to, size_t most) = 0;
  virtual Moved Send(const char* from, size_t count) = 0;
  // Nothing more will be sent.
  virtual void EndSending() = 0;
};

// Makes a connection of an accepted socket, which does not block. Null: it cannot now.
using Accept = std::function<std::unique_ptr<Connection>(FileDescriptor)>;

// What is sent is what is on the wire.
std::unique_ptr<Connection> PlainConnection(FileDescriptor socket);

}  // namespace stretto::monitoring
