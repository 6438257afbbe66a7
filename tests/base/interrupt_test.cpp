#include "base/interrupt.h"

#include <gtest/gtest.h>

#include <functional>

#include "autotrain/error.h"
#include "base/child.h"

namespace autotrain {
namespace {

// What a process ends with that has the handlers, with `before` done before they were installed.
int ends_with(
    const std::function<int()>& work, const std::function<void()>& before = [] {}) {
  Child child([&] {
    for (const int signal : {SIGHUP, SIGXCPU}) ::signal(signal, SIG_DFL);
    before();
    install_signal_handlers();
    return work();
  });
  return child.wait();
}

int stops() {
  return pending_interrupt() == Interrupt::kStop ? 0 : 1;
}

TEST(Interrupt, AHangUpAndALimitOfProcessorTimeAskForAStopHoweverOftenTheyCome) {
  for (const int signal : {SIGHUP, SIGXCPU}) {
    EXPECT_EQ(ends_with([&] { return ::raise(signal), stops(); }), 0) << signal;
    EXPECT_EQ(ends_with([&] { return ::raise(signal), ::raise(signal), ::raise(SIGTERM), stops(); }), 0)
        << signal;
  }
}

TEST(Interrupt, ASecondSignalOfAPersonEndsTheProcessAtOnce) {
  EXPECT_EQ(ends_with([] { return ::raise(SIGTERM), ::raise(SIGINT), 1; }),
            static_cast<int>(ExitCode::kInterrupted));
}

TEST(Interrupt, WhatIsIgnoredAtTheStartStaysIgnored) {
  for (const int signal : {SIGHUP, SIGXCPU}) {
    const auto ignore = [&] { ::signal(signal, SIG_IGN); };
    EXPECT_EQ(ends_with([&] { return ::raise(signal), stops(); }, ignore), 1) << signal;
  }
}

TEST(Interrupt, ASignalOfTheCallersChoiceStopsInItsScopeAlone) {
  EXPECT_EQ(ends_with([] {
              {
                const StopSignalScope scope(SIGUSR1);
                ::raise(SIGUSR1);
                ::raise(SIGUSR1);
                if (stops() != 0 || checkpoint_requested()) return 1;
              }
              clear_interrupt();
              ::raise(SIGUSR1);
              return stops() == 1 && checkpoint_requested() ? 0 : 2;
            }),
            0);
}

// A program that has a trainer as a guest goes on after a run that was stopped.
TEST(Interrupt, ASignalOfTheCallersChoiceIsForgottenWithItsScopeWhereNobodyInstalledHandlers) {
  Child child([] {
    ::signal(SIGTERM, SIG_DFL);
    {
      const StopSignalScope scope(SIGUSR2);
      {
        const StopSignalScope inner(SIGUSR2);
        ::raise(SIGUSR2);
      }
      if (stops() != 0) return 1;
    }
    return stops() == 1 ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace autotrain
