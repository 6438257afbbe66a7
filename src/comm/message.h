#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "autotrain/error.h"

namespace autotrain {

/// What one rank tells the others in a round: a note, or one of the two other things.
struct Message {
  using Note = nlohmann::ordered_json;

  /// A failure that all take alike.
  struct Shared {
    int kind = 0;  ///< of enum Failure
    std::string what = {};
  };

  Note note = {};
  std::string host = {};  ///< of the rank, where it failed or ended
  std::optional<Shared> failure = {};
  std::optional<Error> end = {};  ///< the error with which the rank ends
};

/// As JSON; text that is not UTF-8 is made so.
std::string write_message(const Message& message);

/// @throws Error(kInterrupted) when `write_message` did not write this.
Message read_message(const std::string& text);

}  // namespace autotrain
