#pragma once

#include <torch/nn/module.h>

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/named_tensor.h"
#include "autotrain/task.h"
#include "step/flat_copies.h"
#include "step/operator_scope.h"
#include "step/operator_values.h"

namespace autotrain {

/// Copies of those tensors that a forward pass changes (running statistics, queues, frozen parameters), to
/// put back when what the forward was for did not happen: a module's buffers and parameters, and a task's
/// state.
///
/// Small buffers are always copied. A large one may be a constant that takes most of the memory: it is copied
/// when an operation is about to write to it, and at every `save` from then on. To see that, the first window
/// is watched, operation by operation; what writes to a large buffer by a pointer of its own is not seen
/// then, but by the buffer's version, if it moves that, at the next `save`. Parameters, which seldom change
/// in a forward pass, are copied as large buffers are; those that are trained change between windows too.
/// Of one that is given other memory (`set_data`, `torch::load`) the former is kept, and put back.
class ChangingBuffers {
 public:
  /// `module` must outlive this object.
  explicit ChangingBuffers(const torch::nn::Module& module) : module_(module) {}

  /// With the task's state.
  explicit ChangingBuffers(Task& task) : module_(task.module()), task_(&task) {}

  /// Begins a window: the buffers as they are now are what `restore` puts back.
  void save();

  /// Watches what runs on this thread while it lives, if the window is the first one or `always`. A thread
  /// has one at a time.
  class Watch {
   public:
    explicit Watch(ChangingBuffers& buffers, bool always = false) {
      if (always || !buffers.settled_) scope_.emplace(buffers);
    }

   private:
    std::optional<OperatorScope<ChangingBuffers, false>> scope_;
  };

  /// Whether there are large buffers, or such a state, that nothing has written to yet, in the first windows.
  /// Later ones are not watched for them, which every operator would pay for: who writes to one then for the
  /// first time has it copied from the next window on.
  bool may_be_first_written() const;

  /// Throws, once, what kept a buffer from being copied before an operation wrote to it; else does nothing.
  void rethrow_failure();

  /// Whether a buffer was changed in this window without a copy, for want of memory or because nobody
  /// watched: it cannot be put back. Precondition: parameters were not updated since `save`.
  bool changed_for_good() const { return uncopied_ || !first_unwatched().empty(); }

  /// The name of the first one that was written to while nobody watched; "" if none. Likewise.
  std::string first_unwatched() const;

  /// Whether one of those that are large, or a parameter, lies in other memory than at the last `save`.
  bool moved() const;

  /// The passes of a window are over, and parameters are about to be updated: those that changed meanwhile
  /// are copied from the next `save` on.
  void note_changed_parameters();

  /// A window was watched to its end: which buffers change is known from now on.
  void settle() { settled_ = found_; }
  bool settled() const { return settled_; }

  /// Scalar float64 on the buffers' device: 0 where those that are always copied and were finite at the first
  /// `save` are so now, else not a number. Minus infinity counts as finite: a mask is set so on purpose.
  /// Undefined where there are none, and before the first `save`. Does not wait for the device.
  torch::Tensor nought() const;

  /// The name of the first of them that is not finite; "" if none. Waits for the device.
  std::string first_not_finite() const;

  /// Puts the buffers back to the last `save`. Without one, nothing.
  void restore();

  /// The same where `keep` is false, without waiting for the device.
  /// @param keep scalar bool on the buffers' device.
  void restore_unless(const torch::Tensor& keep);

 private:
  friend class OperatorScope<ChangingBuffers, false>;
  struct Large {
    std::string name;
    torch::Tensor buffer;
    torch::Tensor memory = {};  // the buffer as it lay at the last `save`
    bool parameter = false;
    bool changed = false;  // by a pass that was not watched: it is copied from the next `save` on
    int64_t version = 0;   // at the last `save`
  };

  void start(const at::RecordFunction& operation);
  void find_buffers();
  void note_memory();
  void note_unseen_changes();
  void copy_before_change(const torch::Tensor& written, bool parameters);
  void move_to_copied(size_t large);
  void put_back_memory();

  const torch::nn::Module& module_;
  Task* const task_ = nullptr;
  std::vector<FlatCopies> small_;        // of each type
  std::vector<NamedTensor> sound_;       // small ones that were finite when they were found
  std::vector<torch::Tensor> changing_;  // large ones that change
  std::vector<torch::Tensor> live_;      // the same as they lay at the last `save`
  std::vector<torch::Tensor> copies_;
  std::vector<Large> large_;  // those without a copy, parameters among them
  WrittenArguments written_;
  int64_t windows_ = 0;  // that began
  bool found_ = false;
  bool settled_ = false;  // a whole window was watched
  bool copying_ = false;
  bool uncopied_ = false;
  std::exception_ptr failure_;
};

}  // namespace autotrain
