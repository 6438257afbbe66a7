#include "base/small_thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "autotrain/log.h"
#include "base/child.h"
#include "support/support.h"

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

constexpr int kNoOtherUser = 3;

// In a process that may have no more threads or no more memory. "" where root cannot become one of the users
// that limits are for.
std::string refusal_of_a_thread(int resource, rlim_t limit) {
  const test::TemporaryFolder folder;
  Child child(
      [&] {
        const rlimit lowered = {.rlim_cur = limit, .rlim_max = limit};
        if (::setrlimit(resource, &lowered) != 0) return 2;
        if (::geteuid() == 0 && resource == RLIMIT_NPROC && ::setuid(65534) != 0) return kNoOtherUser;
        std::atomic<bool> over{false};
        std::vector<SmallThread> threads;  // one may get the stack of a thread that has ended
        try {
          for (;;) threads.emplace_back([&] { over.wait(false); });
        } catch (const std::bad_alloc&) {
          log::error("test", "no memory");
        } catch (const Error& error) {
          log::error("test", error.what());
        }
        over = true;
        over.notify_all();
        return 0;
      },
      folder / "log");
  if (child.wait() == kNoOtherUser) return "";
  EXPECT_EQ(child.wait(), 0);
  return test::slurp(folder / "log");
}

TEST(SmallThread, ThreadsThatAreForbiddenAreToldFromMemoryThatRanOut) {
  const std::string forbidden = refusal_of_a_thread(RLIMIT_NPROC, 0);
  if (forbidden.empty()) GTEST_SKIP() << "only root is here";
  EXPECT_TRUE(test::holds(forbidden, "thread: starting one failed: Resource temporarily unavailable"));
  EXPECT_TRUE(test::holds(forbidden, "ulimit -u"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need memory of their own
  EXPECT_TRUE(test::holds(refusal_of_a_thread(RLIMIT_AS, SmallThread::kStackBytes), "no memory"));
#endif
}

}  // namespace
}  // namespace autotrain
