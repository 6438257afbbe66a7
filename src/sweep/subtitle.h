#pragma once

#include <string>

#include "base/json.h"
#include "base/text.h"

namespace autotrain {

/// Where a sweep was measured, as the first of its variants that tells it does, and what of it is to come.
template <class Sweep>
std::string subtitle_of(const Sweep& sweep) {
  std::string text;
  for (const auto& variant : sweep.variants) {
    if (!variant.machine.is_object()) continue;
    text = cat(variant.machine.at("name").template get<std::string>(), ", ",
               words_of_json(variant.machine.at("threads")), " threads, ",
               variant.machine.at("software").template get<std::string>());
    break;
  }
  if (sweep.unfinished > 0) text += cat(" · so far: ", sweep.unfinished, " measurements to come");
  return text;
}

}  // namespace autotrain
