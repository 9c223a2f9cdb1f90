// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measured choices of algorithms, kept in a folder so that they are measured once. A run that
// resumes after a crash then uses the same algorithms, on which its bits depend.

#include <string>

#include "kernels/cuda/tuning/tunings.h"

namespace stretto {

// Not thread-safe. Nothing here fails: choices that cannot be read are measured again, and choices
// that cannot be stored are still used. Both are logged.
class KeptTunings {
 public:
  // Loads the choices for this device and library. With an empty folder, keeps nothing.
  KeptTunings(cuda::Tunings tunings, std::string folder);

  cuda::Tunings& tunings() { return tunings_; }
  // Creates the folder if necessary. Call it after every new choice, which is rare; saving takes
  // less time than measuring.
  void Save();

 private:
  cuda::Tunings tunings_;
  const std::string folder_;
  bool warned_ = false;
};

}  // namespace stretto
