// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measured choices of algorithms, kept in a folder so that they are measured once. A run that
// resumes after a crash then uses the same algorithms, on which its bits depend.

#include <string>

#include "absl/status/status.h"
#include "kernels/cuda/tuning/tunings.h"

namespace stretto {

// Not thread-safe. Nothing here fails: choices that cannot be read are measured again, and choices
// that cannot be stored are still used. Both are logged.
class KeptTunings {
 public:
  // Loads the choices for this device and library. With an empty folder, keeps nothing. Others
  // write under `root`, which contains the folder: no symbolic link there is followed (Confine). An
  // empty root: only whoever named the folder writes there.
  KeptTunings(cuda::Tunings tunings, const std::string& folder, const std::string& root);

  cuda::Tunings& tunings() { return tunings_; }
  // Creates the folder if necessary, and keeps the choices that other processes have stored in the
  // meantime. A file that cannot be parsed is replaced. Call it after every new choice, which is
  // rare; saving takes less time than measuring.
  void Save();

 private:
  // Adds the choices of the file to `tunings`; a file that is not there has none.
  absl::Status Read(cuda::Tunings* tunings) const;
  absl::Status Write() const;

  cuda::Tunings tunings_;
  const std::string folder_, path_;
  bool warned_ = false;
};

}  // namespace stretto
