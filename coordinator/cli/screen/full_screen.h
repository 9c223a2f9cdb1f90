// SPDX-License-Identifier: Apache-2.0
#pragma once
// The terminal as one picture: alternate screen, and keys without echo.

#include <termios.h>

#include <ostream>
#include <string>
#include <vector>

namespace stretto::cli {

// Takes over the terminal of standard input and output; the destructor restores it. One thread at a
// time; nothing else may write meanwhile.
class FullScreen {
 public:
  explicit FullScreen(std::ostream& out);
  ~FullScreen();
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  struct Size {
    int width = 80, height = 24;
  };
  Size size() const;
  // Redraws the whole screen in place.
  void Draw(const std::vector<std::string>& lines);
  // Readable when a key was pressed, or when the terminal is gone.
  int keys_fd() const;
  // Returns the pressed keys, and kEndOfKeys once the terminal is gone.
  static constexpr char kEndOfKeys[] = "\x04";
  std::string ReadKeys();
  // Reads the keys; returns whether `q` is among them, or the terminal is gone.
  bool ReadQuit();
  // Empties an event that was readable, or was not.
  static void Drain(int event_fd);

 private:
  std::ostream& out_;
  termios before_ = {};
  bool restore_ = false;
};

}  // namespace stretto::cli
