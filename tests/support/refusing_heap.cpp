#include "support/refusing_heap.h"

#include <cstdlib>
#include <new>

namespace {

thread_local bool refuses = false;

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = refuses ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return refuses ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace autotrain::test {

RefusingHeap::RefusingHeap() {
  refuses = true;
}

RefusingHeap::~RefusingHeap() {
  refuses = false;
}

}  // namespace autotrain::test
