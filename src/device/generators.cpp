#include "device/generators.h"

#include <algorithm>

#include "autotrain/random.h"
#include "base/random.h"

namespace autotrain {
namespace {

std::vector<at::Generator> generators_of(torch::Device device) {
  std::vector<at::Generator> generators = {cpu_generator()};
  if (!device.is_cpu()) generators.push_back(at::globalContext().defaultGenerator(device));
  return generators;
}

}  // namespace

void seed_generators(torch::Device device, uint64_t key) {
  for (at::Generator& generator : generators_of(device)) {
    std::lock_guard lock(generator.mutex());
    generator.set_current_seed(key);
  }
}

void seed_for_micro_batch(torch::Device device, uint64_t seed, int64_t window, int64_t offset) {
  seed_generators(device, derive_key(seed, static_cast<uint64_t>(RandomUse::kModel), window, offset));
}

void seed_for_place(torch::Device device, uint64_t seed, PlaceToAct place, int64_t samples) {
  seed_generators(device, derive_key(seed, static_cast<uint64_t>(RandomUse::kTask),
                                     static_cast<uint64_t>(place), samples));
}

GeneratorStates::GeneratorStates(torch::Device device) {
  for (at::Generator& generator : generators_of(device)) {
    std::lock_guard lock(generator.mutex());
    states_.emplace_back(generator, generator.get_state());
  }
}

void GeneratorStates::put_back() const {
  for (const auto& [known, state] : states_) {
    at::Generator generator = known;
    std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
}

bool GeneratorStates::equal(const GeneratorStates& other) const {
  return std::ranges::equal(states_, other.states_,
                            [](const auto& a, const auto& b) { return at::equal(a.second, b.second); });
}

}  // namespace autotrain
