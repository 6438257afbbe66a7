#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotrain {

/// The batch sizes that a sweep measures.
struct BatchAxis {
  std::vector<int64_t> sizes = {};  ///< ascending, each once
  bool until_no_gain = false;       ///< stop at the first that gains nothing over the one before
};

/// From "auto", "1..4096" (powers of two times the first, and the last itself) or "1,32,128"; nothing when it
/// is none of these.
std::optional<BatchAxis> parse_batches(std::string_view text);

/// A key of the recipe, or several that go together, and the values that it takes in turn.
struct Axis {
  std::string key = {};                  ///< "model.width", or "data.train.size,data.validation.size"
  std::vector<std::string> values = {};  ///< as `--set` takes them; at least one, no two equal

  std::vector<std::string> keys() const;
};

/// From "model.width=64,256". Commas in brackets do not separate values, so that lists are some:
/// "data.train.shape=[3,32,32],[3,64,64]".
std::optional<Axis> parse_axis(std::string_view text);

/// What a device can do at most, measured or as its data sheet promises.
struct DeviceFigures {
  double flops_per_second = 0;
  double bytes_per_second = 0;
  bool operator==(const DeviceFigures&) const = default;
};

/// From "65TFLOP/s,300GB/s", in powers of 1000; nothing when it is not two positive rates.
std::optional<DeviceFigures> parse_device_figures(std::string_view text);

}  // namespace autotrain
