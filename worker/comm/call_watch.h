// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sees where a rank is in its calls of a group, while it waits for its peers.

namespace stretto {

// Called on the thread that makes the calls; must not wait. For the calls of a device, that is the
// thread that drives it, which sees later what has begun and ended there, but tells every call.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  virtual void OnBegin() = 0;
  // The call waits for a peer, by its rank in the group: to receive its data, or until ours has
  // been handed to the network. Without it, the call may wait for any member of the group.
  virtual void OnAwait(int peer, bool receives) = 0;
  // Not called for a call that failed.
  virtual void OnEnd() = 0;
  // Only for the calls of a device: from now on the thread does nothing but look, again and again,
  // how far they have come, which takes time of a CPU. False: it does other work.
  virtual void OnPoll(bool polls) = 0;
};

}  // namespace stretto
