// SPDX-License-Identifier: Apache-2.0
#pragma once
// The colours of everything that we draw, once: timelines, the page (coordinator/page writes
// palette.css from it), the dashboards (deploy/grafana/make_dashboards.py reads the rows below) and
// the pictures of the documents (docs/pictures, which tests/docs/palette_test.py compares). Time
// that computes is blue or green, what is lost is red, and waits are muted, so that a glance at a
// bar shows what a step loses.

#include <string_view>

namespace stretto::cli {

struct PaletteColor {
  const char* name;
  const char* light;  // on `paper` of the same column
  const char* dark;
};

inline constexpr PaletteColor kPalette[] = {
    // Parts of the ledger, as they are named in metrics.
    {"compute_alone", "#2f6f8f", "#4f97ba"},
    {"compute_hiding", "#3f8f6b", "#57b088"},
    {"exposed", "#c2412d", "#e8705c"},
    {"pipeline_wait", "#dd9a8b", "#a8685b"},
    {"data_wait", "#8b7bb5", "#a596d2"},
    {"checkpoint_wait", "#bbaedb", "#74679c"},
    {"evaluation", "#cfa73c", "#d9b75a"},
    {"idle", "#cbd0d6", "#4b525b"},
    // Phases, and communication with its second slice.
    {"forward", "#2f6f8f", "#4f97ba"},
    {"recompute", "#6fb1c9", "#8cc6da"},
    {"backward", "#e0913a", "#e9a65c"},
    {"optimizer", "#3f8f6b", "#57b088"},
    {"communication", "#e0913a", "#e9a65c"},
    {"second_slice", "#f2c38b", "#b98a4f"},
    // What is behind and beside them.
    {"paper", "#fbfaf7", "#15181b"},
    {"card", "#ffffff", "#1c2024"},
    {"line", "#e4e1d9", "#30363c"},
    {"ink", "#22272d", "#e4e7ea"},
    {"faint", "#646b75", "#98a1ab"},
};

void NoSuchColor();  // not defined, so that calling it does not compile

// Returns the colour with this name on light paper, which is looked up at compile time.
consteval const char* Light(std::string_view name) {
  for (const PaletteColor& color : kPalette) {
    if (name == color.name) return color.light;
  }
  NoSuchColor();
  return "";
}

}  // namespace stretto::cli
