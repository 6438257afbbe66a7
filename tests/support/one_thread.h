#pragma once

#include <ATen/Parallel.h>

namespace autotrain::test {

/// LibTorch computes with one thread until the scope ends: for many tiny operators, between which threads
/// would wait for each other, and on a busy machine far longer than they compute.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace autotrain::test
