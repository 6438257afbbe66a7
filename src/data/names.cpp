#include "data/names.h"

#include "data/bad_samples.h"

namespace autotrain {
namespace {

const Named* named(const Dataset& data) {
  return dynamic_cast<const Named*>(&itself(data));
}

}  // namespace

std::vector<std::string> class_names_in(const Dataset& data) {
  const Named* const names = named(data);
  return names == nullptr ? std::vector<std::string>() : names->class_names();
}

std::string sample_name_in(const Dataset& data, int64_t index) {
  const Named* const names = named(data);
  return names == nullptr || !names->names_samples() ? "" : names->sample_name(index);
}

}  // namespace autotrain
