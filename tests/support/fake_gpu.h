#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "device/timeline.h"

namespace autotrain::test {

/// A device that works behind its host, both on a clock of their own that starts at 0: what it is asked to do
/// takes time, and only who waits for it loses any. Outlives the marks.
class FakeGpu {
 public:
  /// The host does something else for so long.
  void host_works(double seconds) { host_ += seconds; }

  /// Asks for work of so long.
  void queue(double seconds) { device_ = std::max(device_, host_) + seconds; }

  /// Waits until everything so far is done.
  void wait() { host_ = std::max(host_, device_); }

  double host() const { return host_; }

  MarkWork marks() {
    return [this] { return std::make_shared<Point>(*this); };
  }

 private:
  class Point final : public WorkPoint {
   public:
    explicit Point(FakeGpu& gpu) : gpu_(gpu), at_(std::max(gpu.device_, gpu.host_)) { gpu.device_ = at_; }

    double wait() const override { return gpu_.host_ = std::max(gpu_.host_, at_); }

    // As CUDA does: of points that the device has passed, in milliseconds of single precision.
    double seconds_since(const WorkPoint& earlier) const override {
      const double before = static_cast<const Point&>(earlier).at_;
      EXPECT_LE(before, gpu_.host_) << "the device was not there yet";
      EXPECT_LE(at_, gpu_.host_) << "the device was not there yet";
      return static_cast<double>(static_cast<float>((at_ - before) * 1e3)) * 1e-3;
    }

   private:
    FakeGpu& gpu_;
    const double at_;
  };

  double host_ = 0;
  double device_ = 0;  // when it is done with what it was asked
};

}  // namespace autotrain::test
