#include "base/small_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <thread>

namespace autotrain {
namespace {

TEST(SmallThread, RunsItsWorkWithASmallStackAndIsWaitedFor) {
  std::atomic<size_t> stack{0};
  {
    const SmallThread thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      pthread_attr_t attributes;
      size_t bytes = 0;
      pthread_getattr_np(pthread_self(), &attributes);
      pthread_attr_getstacksize(&attributes, &bytes);
      pthread_attr_destroy(&attributes);
      stack = bytes;
    });
  }
  EXPECT_EQ(stack, SmallThread::kStackBytes);
}

TEST(SmallThread, MovesAndJoinsOnce) {
  std::atomic<int> runs{0};
  SmallThread first([&] { ++runs; });
  SmallThread second(std::move(first));
  first.join();  // it has nothing to wait for any more
  second = SmallThread([&] { ++runs; });
  second.join();
  second.join();
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace autotrain
