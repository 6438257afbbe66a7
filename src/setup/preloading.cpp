#include "setup/preloading.h"

#include <algorithm>
#include <mutex>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "device/cores.h"
#include "device/system_memory.h"
#include "setup/horizon.h"

namespace autotrain {
namespace {

constexpr int64_t kShareOfAuto = 8;          // one in so many bytes
constexpr double kSecondsBetweenWords = 10;  // of a long preload

void check_fits(int64_t bytes, int64_t available, const char* whose) {
  if (bytes <= available) return;
  throw Error(
      ExitCode::kDoesNotFit, "execution.loader.preload",
      cat("holding the samples takes ", format_bytes(bytes), " of the ", format_bytes(available), " ", whose),
      "set it to off, use fewer or smaller samples, or raise execution.memory.budget");
}

PreloadChoice choose_auto(const PreloadCase& c, const Preloadable& offer) {
  if (!c.read_again) return {};
  const auto little = [](int64_t bytes, int64_t of) { return bytes > 0 && bytes <= of / kShareOfAuto; };
  if (const int64_t bytes = offer.device_bytes(); c.on_gpu && little(bytes, c.budget_bytes)) {
    return {Preload::kDevice, bytes};
  }
  if (!offer.spares_decoding()) return {};
  const int64_t bytes = offer.ram_bytes();
  if (!little(bytes, c.on_gpu ? c.free_bytes : c.budget_bytes)) return {};
  return {Preload::kRam, bytes};
}

// Says how far it is, seldom.
class Words {
 public:
  explicit Words(std::string key) : key_(std::move(key)) {}

  void operator()(int64_t done, int64_t all) {
    const std::lock_guard lock(mutex_);
    if (since_.seconds() < kSecondsBetweenWords) return;
    since_ = Stopwatch();
    log::info("data", cat(key_, ": ", format_count(done), " of ", format_count(all), " preloaded"));
  }

 private:
  const std::string key_;
  std::mutex mutex_;
  Stopwatch since_;
};

}  // namespace

bool reads_again(const Recipe& recipe, int64_t size) {
  Recipe known = recipe;
  if (!recipe.batch.effective) known.stop.updates.reset();  // of a size that is not known yet
  const std::optional<int64_t> samples = samples_to_stop(known, size, recipe.batch.effective.value_or(1));
  return !samples || *samples > size;
}

PreloadChoice choose_preload(const PreloadCase& c, const Preloadable& offer) {
  if (c.asked == Preload::kOff) return {};
  if (c.asked == Preload::kAuto) return choose_auto(c, offer);
  if (c.asked == Preload::kDevice && c.on_gpu) {
    const int64_t bytes = offer.device_bytes();
    if (bytes == 0) {
      throw Error(ExitCode::kBadRecipe, "execution.loader.preload",
                  "is device; these samples, or what augments them, are not made on a GPU",
                  "set it to ram, or remove what changes colours or sizes at random");
    }
    check_fits(bytes, c.budget_bytes, "of the device's budget");
    return {Preload::kDevice, bytes};
  }
  const int64_t bytes = offer.ram_bytes();
  if (bytes == 0) return {};
  check_fits(bytes, c.on_gpu ? c.free_bytes : c.budget_bytes,
             c.on_gpu ? "of free main memory" : "of the budget");
  return {Preload::kRam, bytes};
}

void preload(Dataset& dataset, const std::string& key, const Recipe& recipe, Device& device) {
  auto* const offer = dynamic_cast<Preloadable*>(&dataset);
  if (offer == nullptr) return;
  const bool again = key == "data.train" ? reads_again(recipe, dataset.size())
                                         : recipe.evaluation.every.unit != Interval::Unit::kNever;
  MemoryMeter& memory = device.memory();
  const MemoryBound bound = tightest(memory_bounds(ResourceLimits::of_this_process()));
  const PreloadCase given{
      .asked = recipe.execution.loader.preload,
      .on_gpu = !device.torch_device().is_cpu(),
      .read_again = again,
      .budget_bytes = device.budget_bytes() - memory.allocated_bytes() - memory.sample_outside_bytes(),
      .free_bytes = bound.available_bytes() - reserve_below(bound)};
  const PreloadChoice chosen = choose_preload(given, *offer);
  if (chosen.where == Preload::kOff) return;
  const bool on_device = chosen.where == Preload::kDevice;
  const Stopwatch watch;
  Words words(key);
  offer->preload({.device = on_device ? device.torch_device() : torch::Device(torch::kCPU),
                  .threads = usable_cores().count,
                  .progress = [&words](int64_t done, int64_t all) { words(done, all); }});
  log::info("data", cat(key, ": ", format_count(dataset.size()), " samples held in ",
                        on_device ? "the GPU's" : "main", " memory, ", format_bytes(chosen.bytes), ", after ",
                        format_seconds(watch.seconds()), " (execution.loader.preload)"));
}

}  // namespace autotrain
