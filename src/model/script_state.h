#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace autotrain {

/// A buffer into whose place a script puts another tensor: self.mean = 0.9 * self.mean + 0.1 * x.mean(0).
struct AssignedBuffer {
  c10::intrusive_ptr<c10::ivalue::Object> owner;
  std::string attribute;
  std::string name;      ///< in the module: "norm.mean"
  bool is_read = false;  ///< by a later pass, which may not begin with what an earlier one left
};

/// Finds what a module's method forward hands on from one pass to the next. State is what it makes of
/// samples, parameters, random numbers, its mode or its own former value, and what of it a later pass may
/// read; what it makes of shapes and constants alone, such as a table that is as long as the longest sample,
/// is none.
/// @returns the buffers that are assigned what is more than a table; those that are written in place stay
/// where they are.
/// @param path of its file, for messages.
/// @throws Error(kBadRecipe) naming an attribute that is state and no buffer: no checkpoint holds it.
std::vector<AssignedBuffer> assigned_buffers(const torch::jit::Module& module, const std::string& path);

}  // namespace autotrain
