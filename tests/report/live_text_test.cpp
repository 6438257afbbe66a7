#include "report/live_text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "base/text.h"
#include "support/support.h"

namespace autotrain {
namespace {

// What stands on a terminal after all that was written to it, of which it knows what LiveText uses.
class Screen {
 public:
  void take(const std::string& text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\x1b') {
        const size_t end = text.find_first_of("AJ", i);
        if (text[end] == 'J') lines_.resize(row_ + 1), lines_[row_].clear();
        if (text[end] == 'A') row_ -= std::min(row_, std::stoul(text.substr(i + 2)));
        i = end;
      } else if (text[i] == '\n') {
        lines_.resize(std::max(lines_.size(), ++row_ + 1));
      } else if (text[i] != '\r') {
        lines_[row_] += text[i];
      }
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines = lines_;
    std::erase(lines, "");
    return lines;
  }

 private:
  std::vector<std::string> lines_ = {""};
  size_t row_ = 0;
};

class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    out_ = std::fopen(::ptsname(master_), "w");
    reader_ = std::thread([this] {
      std::array<char, 4096> bytes;
      for (ssize_t got; (got = ::read(master_, bytes.data(), bytes.size())) > 0;)
        written_.append(bytes.data(), static_cast<size_t>(got));
    });
  }
  ~Terminal() { ::close(master_); }

  std::FILE* out() const { return out_; }

  // All that was written, after which nothing may be.
  std::string close() {
    std::fclose(out_);
    reader_.join();
    return written_;
  }

 private:
  int master_;
  std::FILE* out_;
  std::thread reader_;
  std::string written_;
};

TEST(LiveText, OtherThreadsWriteAboveItAndLoseNothing) {
  constexpr int kThreads = 3, kLines = 300;
  Terminal terminal;
  ASSERT_NE(terminal.out(), nullptr);
  {
    LiveText live(terminal.out());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kLines; ++i) {
          live.above([&] {
            std::fprintf(terminal.out(), "line %d of %d\n", i, thread);
            std::fflush(terminal.out());
          });
        }
      });
    }
    for (int i = 0; i < kLines; ++i) live.show(cat("shown ", i, "\nin two lines"));
    for (std::thread& thread : threads) thread.join();
    live.show("shown at last");
  }
  Screen screen;
  screen.take(terminal.close());
  std::vector<std::string> left = screen.lines(), expected;
  for (int thread = 0; thread < kThreads; ++thread) {
    for (int i = 0; i < kLines; ++i) expected.push_back(cat("line ", i, " of ", thread));
  }
  std::ranges::sort(left);
  std::ranges::sort(expected);
  EXPECT_EQ(left, expected);
}

}  // namespace
}  // namespace autotrain
