#include "python/c_interface.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/error_json.h"
#include "base/text.h"
#include "base/version.h"
#include "device/caching_allocator.h"
#include "device/cpu_device.h"
#include "device/cpu_meter.h"
#include "device/cuda_device.h"
#include "device/failure.h"
#include "plan/plan_enums.h"
#include "plan/plan_json.h"
#include "plan/plan_words.h"
#include "plan/probe.h"
#include "python/step_search.h"
#include "report/noise_words.h"
#include "step/gradient_noise.h"

namespace autotrain {
namespace {

using Json = nlohmann::ordered_json;

char* to_c(const Json& json) {
  return ::strdup(words_of_json(json).c_str());
}

// No exception may leave for Python.
template <class Work>
char* guarded(Work work) {
  try {
    return to_c(work());
  } catch (const Error& error) {
    return to_c({{"error", error_to_json(error)}});
  } catch (const std::exception& error) {
    return to_c({{"error", error_to_json(Error(ExitCode::kInternal, "", first_line(error)))}});
  }
}

// A device that failed says so at the next call that has an answer.
template <class Work>
void quietly(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    log::warn("memory", first_line(error));
  }
}

CarryingDevice& device_of(void* session) {
  return *static_cast<CarryingDevice*>(session);
}

// Its own place in the budget is taken by the one who opens it; all that can be had is its budget here.
std::unique_ptr<Device> open_all_of(const std::string& name) {
  DeviceOptions options;
  options.device = name;
  options.deterministic = std::nullopt;
  if (name == "cpu") return open_cpu_device(options);
  int64_t index = 0;
  if (!name.starts_with("cuda") ||
      (name != "cuda" &&
       (!name.starts_with("cuda:") || !parse_integer(std::string_view(name).substr(5), index)))) {
    throw Error(
        ExitCode::kBadRecipe, "device",
        cat("tensors on ", quote(name), " cannot be counted: its memory has no allocator that can refuse"),
        "move model and batches to the CPU or to a CUDA device");
  }
  return open_cuda_device(options, index);
}

Budget budget_from(const std::string& text) {
  if (const auto budget = Budget::parse(text)) return *budget;
  throw Error(ExitCode::kBadRecipe, "budget", cat(quote(text), " is no budget"),
              "use \"512MiB\", \"8GiB\", \"80%\" or \"auto\"");
}

template <class Value>
std::optional<Value> optional_in(const Json& json, const char* name) {
  return json.contains(name) && !json[name].is_null() ? std::optional<Value>(json[name].get<Value>())
                                                      : std::nullopt;
}

StepCut cut_from(const std::string& word) {
  if (word == "auto") return StepCut::kAuto;
  if (word == "even") return StepCut::kEven;
  if (word == "full") return StepCut::kFull;
  if (word == "divide") return StepCut::kDivide;
  throw Error(ExitCode::kBadRecipe, "cut", cat(quote(word), " is no cut"), "use auto, even, full or divide");
}

StepRequest request_from(const Json& json) {
  return {.effective = optional_in<int64_t>(json, "effective"),
          .most = optional_in<int64_t>(json, "most"),
          .minimum = json.at("minimum"),
          .multiple_of = json.at("multiple_of"),
          .cut = cut_from(json.at("cut")),
          .target_low = json.at("target").at(0),
          .target_high = json.at("target").at(1),
          .max_probes = json.at("max_probes"),
          .max_seconds = json.at("max_seconds"),
          .floor_bytes = json.at("floor_bytes"),
          .costs_differ = json.at("costs_differ"),
          .evaluates = json.at("evaluates")};
}

// What a recipe decides is not known of somebody else's step.
Json plan_of_step(const BatchPlan& plan) {
  Json json = plan_to_json(plan);
  for (const char* const name :
       {"precision", "memory_format", "world_size", "lanes", "loss_factor", "lr", "stages", "origin",
        "split_check", "cuda_graphs", "cuda_graphs_why", "recompute", "recompute_why", "others_bytes",
        "least_effective_batch", "typical_fill"})
    json.erase(name);
  return json;
}

Json result_of(const StepPlan& found) {
  Json trail = Json::array();
  for (const ProbeRecord& probe : found.plan.search.probes)
    trail.push_back({{"words", trial_in_words(probe)}, {"outcome", in_words(probe.outcome)}});
  return {{"plan", plan_of_step(found.plan)},
          {"reason", reason_in_words(found.plan)},
          {"cut_in_words", window_in_words(found.plan)},
          {"said", found.said},
          {"trail", std::move(trail)}};
}

Json memory_of(CarryingDevice& device) {
  MemoryMeter& memory = device.memory();
  const int64_t outside = memory.sample_outside_bytes();
  const MemoryPeak peak = memory.peak();
  return {{"budget_bytes", device.budget_bytes()},     {"budget_source", device.budget_source()},
          {"carried_bytes", device.carried_bytes()},   {"allocated_bytes", memory.allocated_bytes()},
          {"reserved_bytes", memory.reserved_bytes()}, {"outside_bytes", outside},
          {"peak_bytes", peak.total_bytes()},          {"peak_allocated_bytes", peak.allocated_bytes}};
}

// All of an update's pieces count as first ones of a lane: each is a gradient by itself.
void add_update(const Json& update, NoiseBlocks& blocks) {
  WindowNorms norms{.square = update.at("square")};
  for (const Json& piece : update.at("pieces")) {
    const double samples = piece.at(0);
    norms.first_squares += samples * piece.at(1).get<double>();
    norms.first_weight += samples;
    ++norms.firsts;
  }
  norms.weight = norms.first_weight;
  if (const auto moments = moments_of(norms, static_cast<int64_t>(norms.weight))) blocks.add(*moments);
}

// While it lives, cuDNN does not look for the fastest algorithm: it would try some with large workspaces, and
// memory would peak at random. Afterwards it does as the program has it.
class WithoutBenchmarks {
 public:
  WithoutBenchmarks() { at::globalContext().setBenchmarkCuDNN(false); }
  ~WithoutBenchmarks() { at::globalContext().setBenchmarkCuDNN(before_); }
  WithoutBenchmarks(const WithoutBenchmarks&) = delete;
  WithoutBenchmarks& operator=(const WithoutBenchmarks&) = delete;

 private:
  const bool before_ = at::globalContext().benchmarkCuDNN();
};

// The exception is known by its text alone: Python has made another of it.
StepSaid meaning_of(const char* text) {
  switch (classify_failure(std::runtime_error(text))) {
    case Failure::kOutOfMemory: return StepSaid::kOutOfMemory;
    case Failure::kLibraryMemory: return StepSaid::kLibraryMemory;
    case Failure::kIndexLimit: return StepSaid::kIndexLimit;
    case Failure::kOther: break;
  }
  return StepSaid::kStop;
}

}  // namespace
}  // namespace autotrain

using namespace autotrain;

const char* autotrain_version() {
  return version();
}

void autotrain_free(char* text) {
  std::free(text);
}

void autotrain_log_to(AutotrainLog to) {
  log::set_sink(
      [to](const log::Record& record) {
        to(static_cast<int>(record.level), std::string(record.room).c_str(),
           std::string(record.text).c_str());
      },
      log::Level::kInfo);
}

char* autotrain_install(const char* budget) {
  return guarded([&] {
    open_cpu_device({.device = "cpu", .budget = budget_from(budget)});  // heap, kernels, threads as in a run
    static auto* const meter = new CpuMeter;                            // keeps the allocator in use
    return Json{{"reserved_bytes", meter->reserved_bytes()}};
  });
}

char* autotrain_allocated() {
  return guarded([] {
    return Json{{"allocated_bytes", CachingAllocator::process_wide().counts().allocated_bytes}};
  });
}

int autotrain_classify(const char* text) {
  return static_cast<int>(meaning_of(text));
}

char* autotrain_open(const char* request, void** session) {
  *session = nullptr;
  return guarded([&] {
    const Json json = Json::parse(request);
    const Budget budget = budget_from(json.at("budget"));
    auto device = std::make_unique<CarryingDevice>(open_all_of(json.at("device")), budget,
                                                   json.at("carried_bytes").get<int64_t>());
    const Json memory = memory_of(*device);
    *session = device.release();
    return memory;
  });
}

char* autotrain_memory(void* session) {
  return guarded([&] { return memory_of(device_of(session)); });
}

void autotrain_sample(void* session) {
  quietly([&] { device_of(session).memory().sample_outside_bytes(); });
}

void autotrain_begin(void* session) {
  quietly([&] { begin_trial(device_of(session).memory()); });
}

void autotrain_close(void* session) {
  quietly([&] { delete &device_of(session); });
}

char* autotrain_noise_scale(const char* updates) {
  return guarded([&]() -> Json {
    NoiseBlocks blocks;
    for (const Json& update : Json::parse(updates)) add_update(update, blocks);
    return noise_scale_to_json(blocks.scale());
  });
}

char* autotrain_find(void* session, const char* request, AutotrainRunStep run) {
  return guarded([&]() -> Json {
    const StepRequest asked = request_from(Json::parse(request));
    const WithoutBenchmarks benchmarks;
    const auto found =
        find_step_batch(device_of(session), asked, [run](StepPart part, const std::vector<int64_t>& pieces) {
          return static_cast<StepSaid>(run(static_cast<int>(part), pieces.data(), std::ssize(pieces)));
        });
    return found ? result_of(*found) : Json{{"stopped", true}};
  });
}
