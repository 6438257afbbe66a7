#pragma once

namespace autotrain::test {

/// While it lives, operator new refuses everything that this thread asks for.
class RefusingHeap {
 public:
  RefusingHeap();
  ~RefusingHeap();
  RefusingHeap(const RefusingHeap&) = delete;
  RefusingHeap& operator=(const RefusingHeap&) = delete;
};

}  // namespace autotrain::test
