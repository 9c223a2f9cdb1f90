// SPDX-License-Identifier: Apache-2.0
#pragma once
// The notation in which a row of operations.inc names the kernel that it calls:
//
//   Calls(&Ops::Embed, "tokens", "table", VocabOf, "y")
//
// Each parameter of the method gets its value from an operand by name (an absent one becomes a view
// without data) or from a function of the attributes. The compiler checks number and types.

#include <functional>
#include <tuple>
#include <type_traits>

#include "kernels/ops.h"
#include "worker/engine/program/operands.h"

namespace stretto {

inline TensorView Argument(const ViewOperands& operands, const char* name) {
  const TensorView* view = operands.Find(name);
  return view == nullptr ? TensorView{} : *view;
}

// The operand `first` or, when that is absent, `second`.
struct Either {
  const char* first;
  const char* second;
};
inline TensorView Argument(const ViewOperands& operands, const Either& either) {
  const TensorView* view = operands.Find(either.first);
  return view == nullptr ? operands[either.second] : *view;
}

template <class Function>
auto Argument(const ViewOperands& operands, Function function)
    -> decltype(function(operands.attributes())) {
  return function(operands.attributes());
}

template <class... Parameters, class... Sources>
auto Calls(void (Ops::*method)(Parameters...), Sources... sources) {
  static_assert(sizeof...(Parameters) == sizeof...(Sources), "a value for each parameter");
  return [=](const ViewOperands& operands, Ops* ops) -> std::function<void()> {
    // Arguments are resolved here, so that the call itself looks nothing up.
    std::tuple<std::decay_t<Parameters>...> arguments{Argument(operands, sources)...};
    return [=] {
      std::apply([=](const auto&... argument) { (ops->*method)(argument...); }, arguments);
    };
  };
}

}  // namespace stretto
