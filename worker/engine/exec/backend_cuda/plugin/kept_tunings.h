// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measured choices of algorithms in a folder, so that they are measured once and a run that goes on
// after a crash computes with the same ones: its bits depend on them.

#include <string>

#include "kernels/cuda/tuning/tunings.h"

namespace stretto {

// Not thread-safe. Nothing here fails: what cannot be read is measured again, what cannot be stored
// is used all the same. The log says so.
class KeptTunings {
 public:
  // Takes up what the folder has for this device and library. Empty: keeps nothing.
  KeptTunings(cuda::Tunings tunings, std::string folder);

  cuda::Tunings& tunings() { return tunings_; }
  // Makes the folder if need be. Call after every new choice: it is rare and takes less time than
  // measuring one.
  void Save();

 private:
  cuda::Tunings tunings_;
  const std::string folder_;
  bool warned_ = false;
};

}  // namespace stretto
