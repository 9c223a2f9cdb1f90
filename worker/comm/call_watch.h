// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sees where a rank is in its calls of a group, while it waits for its peers.

namespace stretto {

// Called on the thread that makes the calls; must not wait.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  virtual void OnBegin() = 0;
  // The call waits for a peer, by its rank in the group: to receive its data, or until ours has
  // been handed to the network.
  virtual void OnAwait(int peer, bool receives) = 0;
  // Not called for a call that failed.
  virtual void OnEnd() = 0;
};

}  // namespace stretto
